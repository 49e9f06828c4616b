package admit

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit/document"
)

// OverrideContext holds what overrides depend on in addition to the request.
type OverrideContext struct {
	Now func() time.Time
	// Namespace returns a namespace, and whether it is known. Its error wraps ErrNotReady while it has not arrived yet.
	// Nil: the requests are about objects outside of namespaces, and conditions on namespaces match none of them.
	Namespace func(name string) (ns Namespace, known bool, err error)
}

// stepOverrides are the overrides of one step, in order.
type stepOverrides struct {
	OverrideContext
	all   []*stepOverride
	index overrideIndex
	// asksUntil is when the last override with a NamespaceSelector becomes void; zero if there is none.
	asksUntil time.Time
}

// stepOverride is an override of one step.
type stepOverride struct {
	Override
	loosens bool // it may weaken the mode that the step has without it
}

// never is after every date of a policy.
var never = time.Unix(1<<40, 0)

// WithOverrides returns the chain with overrides of the modes of its steps. Call it last, after WithModes.
func (c Chain) WithOverrides(overrides []Override, in OverrideContext) Chain {
	return c.with(func(s *step) { s.overrides = overridesOf(s.Step, overrides, in) })
}

// overridesOf returns the overrides of a step, or nil if there are none.
func overridesOf(s Step, overrides []Override, in OverrideContext) *stepOverrides {
	found := stepOverrides{OverrideContext: in}
	for i, o := range overrides {
		if !o.Concerns(s.Name) || in.Namespace == nil && o.NamespaceSelector != nil {
			continue
		}
		found.all = append(found.all, &stepOverride{o, Loosens(overrides, i, s.Name, s.Mode)})
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
	found.index = newOverrideIndex(found.all)
	return &found
}

// resolution holds what is known of a request while the modes of its steps are decided. All steps of a review see the
// same.
type resolution struct {
	steps []step // of the chain that runs
	now   time.Time
	asked bool
	space labels.Set // the labels of the namespace
	known bool
	err   error // why they are not known
}

// resolve returns the mode of the step for a request, and the override that sets it, or nil.
func (s *step) resolve(req *Request) (Mode, *Override, error) {
	if s.overrides == nil {
		return s.Mode, nil, nil
	}
	found, err := s.overrides.find(req)
	if found == nil || err != nil {
		return s.Mode, nil, err
	}
	return found.modeFor(req), &found.Override, nil
}

// ModeOf returns the mode that a step of the running chain has for the request; otherwise, if the chain does not have the
// step, or if its mode cannot be decided yet, so that the step will fail.
func (r *Request) ModeOf(name string, otherwise Mode) Mode {
	for i := range r.resolution.steps {
		if s := &r.resolution.steps[i]; s.Name == name {
			if mode, _, err := s.resolve(r); err == nil {
				return mode
			}
		}
	}
	return otherwise
}

// find returns the first override that matches a request, or nil.
func (s *stepOverrides) find(req *Request) (*stepOverride, error) {
	if req.resolution.now.IsZero() {
		req.resolution.now = s.Now()
	}
	name := req.namespaceName()
	if name != "" && req.resolution.now.Before(s.asksUntil) {
		req.askNamespace(s.Namespace, name)
	}
	if req.resolution.err != nil {
		return s.first(req, name, s.everything())
	}
	var buffer [32]int
	return s.first(req, name, s.index.candidates(buffer[:0], req, name, req.resolution.space))
}

// explainEnded names the overrides that would match a request if they had not ended.
func (s *stepOverrides) explainEnded(req *Request) {
	name := req.namespaceName()
	for _, o := range s.all {
		if !o.Void(req.resolution.now) {
			continue
		}
		if o.NamespaceSelector != nil && name != "" {
			req.askNamespace(s.Namespace, name)
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
func (s *stepOverrides) first(req *Request, name string, positions []int) (*stepOverride, error) {
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
func (o *stepOverride) matches(req *Request, name string) (bool, error) {
	switch {
	case o.Void(req.resolution.now), !o.ofNamespace(name), !o.ofUser(req), !o.ofObject(req):
		return false, nil
	case o.NamespaceSelector == nil:
		return true, nil
	case name == "" || req.isNamespace() && !req.resolution.known:
		return false, nil
	case req.resolution.err != nil:
		return false, fmt.Errorf("override %s: %w", o.Name, req.resolution.err)
	}
	if !req.resolution.known {
		req.Explain("namespace %s is not known: override %s takes it for one without labels", name, o.Name)
	}
	return o.NamespaceSelector.Matches(req.resolution.space), nil
}

// ofNamespace reports whether the override is for the namespace of the given name, which is "" outside of namespaces.
func (o *Override) ofNamespace(name string) bool {
	return len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, name)
}

// ofObject reports whether the selector matches the object. On an update, an override that loosens must match the
// stored object and the new one, so that the update itself makes no exception; any other override must match one of
// them, so that the update does not end it. A selector matches no object whose labels cannot be read.
func (o *stepOverride) ofObject(req *Request) bool {
	if o.Selector == nil {
		return true
	}
	selected := Ratchet{Is: o.selects(req.Object), Was: o.selects(req.OldObject)}
	switch {
	case unreadable(req) != nil:
		return false
	case o.loosens && req.Object != nil && req.OldObject != nil:
		return selected.Both()
	}
	return selected.Either()
}

func (o *Override) selects(object *document.Document) bool {
	return object != nil && o.Selector.Matches(Meta{object.Root()}.Selectable())
}

// isNamespace reports whether the request is about a Namespace.
func (r *Request) isNamespace() bool {
	return r.Kind == metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
}

// namespaceName returns the name of the namespace that the object is in, or that it is; "" outside of namespaces.
func (r *Request) namespaceName() string {
	if r.isNamespace() {
		return r.ObjectName()
	}
	return r.Namespace
}

// askNamespace asks for the labels of the request's namespace, once. If the request is about a Namespace, they are the
// stored ones: the request may change them, and a new one has none.
func (r *Request) askNamespace(ask func(string) (Namespace, bool, error), name string) {
	if r.resolution.asked {
		return
	}
	r.resolution.asked = true
	if !r.isNamespace() {
		var found Namespace
		found, r.resolution.known, r.resolution.err = ask(name)
		r.resolution.space = found.Labels
	} else if r.OldObject != nil {
		r.resolution.space, r.resolution.known = Meta{r.OldObject.Root()}.Labels(), true
	}
}
