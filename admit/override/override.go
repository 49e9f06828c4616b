// Package override is about the overrides of a policy, exceptions to the modes of steps: it reads and checks them, and decides which
// of them sets the mode of a step for a request.
package override

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// Context holds what overrides depend on in addition to the request.
type Context struct {
	Now func() time.Time
	// Namespace returns a namespace, and whether it is known. Its error wraps admit.ErrNotReady while it has not arrived yet.
	// Nil: the requests are about objects outside of namespaces, and conditions on namespaces match none of them.
	Namespace func(name string) (ns admit.Namespace, known bool, err error)
}

// Of returns how the modes of steps depend on requests under some overrides, for Chain.WithOverrides.
func Of(all []admit.Override, in Context) func(admit.Step) admit.Overriding {
	return func(s admit.Step) admit.Overriding {
		if found := ofStep(s, all, in); found != nil {
			return found.resolve
		}
		return nil
	}
}

// stepOverrides are the overrides of one step, in order.
type stepOverrides struct {
	Context
	all   []*stepOverride
	index index
	// asksUntil is when the last override with a NamespaceSelector becomes void; zero if there is none.
	asksUntil time.Time
}

// stepOverride is an override of one step.
type stepOverride struct {
	admit.Override
	loosens bool // it may weaken the mode that the step has without it
}

// never is after every date of a policy.
var never = time.Unix(1<<40, 0)

// ofStep returns the overrides of a step, or nil if there are none.
func ofStep(s admit.Step, overrides []admit.Override, in Context) *stepOverrides {
	found := stepOverrides{Context: in}
	for i, o := range overrides {
		if !o.Concerns(s.Name) || in.Namespace == nil && o.NamespaceSelector != nil {
			continue
		}
		found.all = append(found.all, &stepOverride{o, loosens(overrides, i, s.Name, s.Mode)})
		if o.NamespaceSelector == nil {
			continue
		}
		end := o.Until
		if end.IsZero() {
			end = never
		}
		if end.After(found.asksUntil) {
			found.asksUntil = end
		}
	}
	if len(found.all) == 0 {
		return nil
	}
	found.index = newIndex(found.all)
	return &found
}

// resolve is an admit.Overriding.
func (s *stepOverrides) resolve(req *admit.Request) (admit.Mode, *admit.Override, error) {
	found, err := s.find(req)
	if req.Explained() {
		s.explainEnded(req)
	}
	if found == nil || err != nil {
		return "", nil, err
	}
	mode := found.modeFor(req)
	if req.Explained() {
		req.Explain("override %s: mode %s%s: %s", found.Name, string(mode), found.details(req), found.Because())
	}
	return mode, &found.Override, nil
}

// find returns the first override that matches a request, or nil.
func (s *stepOverrides) find(req *admit.Request) (*stepOverride, error) {
	around := req.Circumstances()
	if around.Now.IsZero() {
		around.Now = s.Now()
	}
	name := namespaceName(req)
	if name != "" && around.Now.Before(s.asksUntil) {
		askNamespace(req, s.Namespace, name)
	}
	if around.Err != nil {
		return s.first(req, name, s.everything())
	}
	var buffer [32]int
	return s.first(req, name, s.index.candidates(buffer[:0], req, name, around.Space))
}

// explainEnded names the overrides that would match a request if they had not ended.
func (s *stepOverrides) explainEnded(req *admit.Request) {
	name, around := namespaceName(req), req.Circumstances()
	for _, o := range s.all {
		if !o.Void(around.Now) {
			continue
		}
		if o.NamespaceSelector != nil && name != "" {
			askNamespace(req, s.Namespace, name)
		}
		past := *o
		past.Until = time.Time{}
		if ok, err := past.matches(req, name); ok && err == nil {
			req.Explain("override %s has ended, after %s", o.Name, o.UntilText())
		}
	}
}

// everything returns the positions of all overrides: without the labels of the namespace, the index cannot be used.
func (s *stepOverrides) everything() []int {
	positions := make([]int, len(s.all))
	for i := range positions {
		positions[i] = i
	}
	return positions
}

// first returns the first override at the given positions that matches a request, or nil.
func (s *stepOverrides) first(req *admit.Request, name string, positions []int) (*stepOverride, error) {
	last := -1
	for _, i := range positions {
		if i == last {
			continue
		}
		last = i
		if ok, err := s.all[i].matches(req, name); ok || err != nil {
			return s.all[i], err
		}
	}
	return nil, nil
}

// matches reports whether the override matches a request in the namespace of the given name. The labels of the
// namespace come last, because they may not have arrived yet.
func (o *stepOverride) matches(req *admit.Request, name string) (bool, error) {
	around := req.Circumstances()
	switch {
	case o.Void(around.Now), !o.ofNamespace(name), !o.ofUser(req), !o.ofObject(req):
		return false, nil
	case o.NamespaceSelector == nil:
		return true, nil
	case name == "" || isNamespace(req) && !around.Known:
		return false, nil
	case around.Err != nil:
		return false, fmt.Errorf("override %s: %w", o.Name, around.Err)
	}
	if !around.Known {
		req.Explain("namespace %s is not known: override %s takes it for one without labels", name, o.Name)
	}
	return o.NamespaceSelector.Matches(around.Space), nil
}

// ofNamespace reports whether the override is for the namespace of the given name, which is "" outside of namespaces.
func (o *stepOverride) ofNamespace(name string) bool {
	return len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, name)
}

// ofObject reports whether the selector matches the object. On an update, an override that loosens must match the
// stored object and the new one, so that the update itself makes no exception; any other override must match one of
// them, so that the update does not end it. A selector matches no object whose labels cannot be read.
func (o *stepOverride) ofObject(req *admit.Request) bool {
	if o.Selector == nil {
		return true
	}
	selected := admit.Ratchet{Is: o.selects(req.Object), Was: o.selects(req.OldObject)}
	switch {
	case req.Unreadable() != nil:
		return false
	case o.loosens && req.Object != nil && req.OldObject != nil:
		return selected.Both()
	}
	return selected.Either()
}

func (o *stepOverride) selects(object *document.Document) bool {
	return object != nil && o.Selector.Matches(admit.AsMeta(object).Selectable())
}

// isNamespace reports whether the request is about a Namespace.
func isNamespace(req *admit.Request) bool {
	return req.Kind == metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
}

// namespaceName returns the name of the namespace that the object is in, or that it is; "" outside of namespaces.
func namespaceName(req *admit.Request) string {
	if isNamespace(req) {
		return req.ObjectName()
	}
	return req.Namespace
}

// askNamespace asks for the labels of the request's namespace, once. If the request is about a Namespace, they are the
// stored ones: the request may change them, and a new one has none.
func askNamespace(req *admit.Request, ask func(string) (admit.Namespace, bool, error), name string) {
	around := req.Circumstances()
	if around.Asked {
		return
	}
	around.Asked = true
	if !isNamespace(req) {
		var found admit.Namespace
		found, around.Known, around.Err = ask(name)
		around.Space = found.Labels
	} else if req.OldObject != nil {
		around.Space, around.Known = admit.AsMeta(req.OldObject).Labels(), true
	}
}
