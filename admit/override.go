package admit

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Override is an exception of the policy: some requests meet some steps in another mode. It matches a request if all its
// conditions do; what is left out is no condition.
type Override struct {
	Name  string
	Steps []string
	// Namespaces and NamespaceSelector are about the namespace of the object. An object outside of namespaces has none,
	// except a Namespace, which is in itself, with the labels that are stored. There is at most one of the two.
	Namespaces        []string
	NamespaceSelector labels.Selector
	// Selector is about the labels of the object.
	Selector labels.Selector
	// Users and Groups are about the user who sends the request, who must be one of the users or in one of the groups.
	Users, Groups []string
	// Mode is the mode of the steps.
	Mode Mode
	// EnforcePercent is the percentage of workloads for which the mode is Enforce instead; zero: none.
	EnforcePercent int
	// Until is the first moment at which the override is void; zero: never.
	Until          time.Time
	Reason, Ticket string
}

// Concerns reports whether the override is about a step.
func (o *Override) Concerns(step string) bool { return slices.Contains(o.Steps, step) }

// Void reports whether the override has ended.
func (o *Override) Void(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }

// UntilText returns the end of the override as a policy file says it: the last day, or the moment; "" if it has none.
func (o *Override) UntilText() string {
	if o.Until.IsZero() {
		return ""
	}
	end := o.Until.UTC()
	if midnight := end.Truncate(24 * time.Hour); midnight.Equal(end) {
		return end.Add(-time.Second).Format(time.DateOnly)
	}
	return end.Format(time.RFC3339)
}

// exempts names the override in a warning about what it prevents; o may be nil.
func (o *Override) exempts() string {
	switch {
	case o == nil:
		return ""
	case o.Until.IsZero():
		return " without override " + o.Name
	}
	return " after " + o.UntilText() + ", the end of override " + o.Name
}

// Because returns the reason, with the ticket if there is one.
func (o *Override) Because() string {
	if o.Ticket == "" {
		return o.Reason
	}
	return o.Reason + " (" + o.Ticket + ")"
}

// Origin returns the workload of the object as it is stored, or as it is sent if it is new. A Deployment is of the same
// origin as its pods.
func (r *Request) Origin() Origin {
	object, kind := r.OldObject, r.Kind.Kind
	if object == nil {
		object = r.Object
	}
	if kind == "Deployment" {
		kind = "ReplicaSet"
	}
	if object == nil {
		return Origin{r.Namespace, kind, r.Name}
	}
	origin := OriginOf(kind, r.Namespace, Meta{object.Root()})
	if origin.Name == "" {
		origin.Name = r.Name
	}
	return origin
}

// Overriding decides whether an override sets the mode of a step for a request: it returns the mode and the override, or a nil
// override. Package override has the one for the overrides of a policy.
type Overriding func(*Request) (Mode, *Override, error)

// WithOverrides returns the chain with steps whose modes depend on the request. of returns how a step's does, or nil. Call it last,
// after WithModes.
func (c Chain) WithOverrides(of func(Step) Overriding) Chain {
	return c.with(func(s *step) { s.overriding = of(s.Step) })
}

// ModeOf returns the mode that a step of the running chain has for the request; otherwise, if the chain does not have the
// step, or if its mode cannot be decided yet, so that the step will fail.
func (r *Request) ModeOf(name string, otherwise Mode) Mode {
	explained := r.explanation.wanted
	defer func() { r.explanation.wanted = explained }()
	r.explanation.wanted = false // the step explains its mode itself
	for i := range r.steps {
		if s := &r.steps[i]; s.Name == name {
			if mode, _, err := s.resolve(r); err == nil {
				return mode
			}
		}
	}
	return otherwise
}

// Circumstances caches the answers to questions about a request that decide the modes of its steps, so that all steps of a review see the same.
type Circumstances struct {
	Now time.Time // zero until the first step asks
	// Asked reports whether the labels of the request's namespace have been asked for.
	Asked bool
	Space labels.Set // the labels of the namespace
	Known bool
	Err   error // why they are not known
}

// Circumstances returns the cached answers about the request, which package override fills in.
func (r *Request) Circumstances() *Circumstances { return &r.circumstances }
