package labelling

import (
	"context"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// Filler applies Defaults to pods and pod templates.
type Filler struct{ entries []entry }

type entry struct {
	Default
	selection config.CompiledSelection
}

// Compile returns the defaults in the form that steps use for each request.
func (d Defaults) Compile() *Filler {
	f := &Filler{}
	for _, one := range d {
		f.entries = append(f.entries, entry{one, one.Selection.Compile()})
	}
	return f
}

// Empty reports whether there are no defaults.
func (f *Filler) Empty() bool { return len(f.entries) == 0 }

// Fill sets the labels and annotations that an object lacks and returns the number of entries that select the object. It
// calls namespace only if an entry depends on it; an error of namespace is returned as it is.
func (f *Filler) Fill(ctx context.Context, object admit.Meta, namespace func() (admit.Namespace, error)) (selected int, err error) {
	labels := func() (map[string]string, error) {
		ns, err := namespace()
		return ns.Labels, err
	}
	for i := range f.entries {
		entry := &f.entries[i]
		if err := ctx.Err(); err != nil {
			return selected, err
		}
		matches, err := entry.selection.Matches(object.Selectable(), labels)
		if err != nil {
			return selected, err
		}
		if !matches {
			continue
		}
		selected++
		if err := entry.fill(object, namespace); err != nil {
			return selected, err
		}
	}
	return selected, nil
}

func (e *entry) fill(object admit.Meta, namespace func() (admit.Namespace, error)) error {
	for i := range e.Labels {
		if object.HasLabel(e.Labels[i].Key) {
			continue
		}
		value, found, err := e.Labels[i].of(namespace)
		if err != nil {
			return err
		}
		if found {
			object.SetLabel(e.Labels[i].Key, value)
		}
	}
	for i := range e.Annotations {
		if _, has := object.Annotation(e.Annotations[i].Key); has {
			continue
		}
		value, found, err := e.Annotations[i].of(namespace)
		if err != nil {
			return err
		}
		if found {
			object.SetAnnotation(e.Annotations[i].Key, value)
		}
	}
	return nil
}

// of returns the default's value in a namespace; found is false if it has none there.
func (v *Value) of(namespace func() (admit.Namespace, error)) (value string, found bool, err error) {
	if v.FromNamespaceLabel != "" || v.FromNamespaceAnnotation != "" {
		ns, err := namespace()
		if err != nil {
			return "", false, err
		}
		if value, found = ns.Labels[v.FromNamespaceLabel]; found {
			return value, true, nil
		}
		if value, found = ns.Annotations[v.FromNamespaceAnnotation]; found {
			return value, true, nil
		}
	}
	if v.Value == nil {
		return "", false, nil
	}
	return *v.Value, true, nil
}
