package admit

import (
	"fmt"
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

// ofUser reports whether the user of the request is one of those that the override is for.
func (o *Override) ofUser(req *Request) bool {
	if len(o.Users)+len(o.Groups) == 0 || slices.Contains(o.Users, req.UserInfo.Username) {
		return true
	}
	return slices.ContainsFunc(req.UserInfo.Groups, func(group string) bool { return slices.Contains(o.Groups, group) })
}

// modeFor returns the mode that the override sets for a request that it matches.
func (o *Override) modeFor(req *Request) Mode {
	if o.EnforcePercent > 0 && req.origin().Draw(o.Name) < o.EnforcePercent {
		return Enforce
	}
	return o.Mode
}

// details says how the override chose the mode for a request, and how long it will.
func (o *Override) details(req *Request) (text string) {
	if o.EnforcePercent > 0 {
		origin := req.origin()
		text = fmt.Sprintf(" (%s %s draws %d, enforcePercent is %d)", origin.Kind, origin.Name, origin.Draw(o.Name), o.EnforcePercent)
	}
	if end := o.UntilText(); end != "" {
		text += " until " + end
	}
	return text
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

// origin returns the workload of the object as it is stored, or as it is sent if it is new. A Deployment is of the same
// origin as its pods.
func (r *Request) origin() Origin {
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

// Loosens reports whether one of several overrides may set a weaker mode for a step than the step has without it, in
// its own mode, which base is, or by a later override.
func Loosens(overrides []Override, i int, step string, base Mode) bool {
	strictest := base
	for _, later := range overrides[i+1:] {
		if strictest.rank() == 0 {
			break // there is none stricter, and there may be thousands of overrides
		}
		if later.Concerns(step) {
			strictest = stricter(strictest, later.strictest())
		}
	}
	return overrides[i].Mode.rank() > strictest.rank()
}

// strictest returns the strictest mode that the override sets.
func (o *Override) strictest() Mode {
	if o.EnforcePercent > 0 {
		return Enforce
	}
	return o.Mode
}

// rank returns the position of the mode in AllModes, from 0, the strictest; an unset mode is enforced.
func (m Mode) rank() int { return max(0, slices.Index(AllModes, m)) }

func stricter(a, b Mode) Mode { return AllModes[min(a.rank(), b.rank())] }
