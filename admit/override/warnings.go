package override

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/selector"
)

// expirySoon is the time before its end from which on an override is warned about.
const expirySoon = 14 * 24 * time.Hour

// Warnings returns what is probably not meant: overrides that are never used, because one before them matches whatever
// they match, those that loosen a step for ever, or for a controller and so for all users, and roll-outs after which a
// step is not enforced.
func (all List) Warnings(modes admit.Modes, at *field.Path) (texts []string) {
	made := all.Compile()
	for i, o := range made {
		warn := func(format string, args ...any) {
			texts = append(texts, fmt.Sprintf("%s: override %s "+format, append([]any{at.Index(i), o.Name}, args...)...))
		}
		if before := all.shadow(i); before != "" {
			warn("is never used: override %s before it matches everything that it matches; move it up", before)
		}
		loosened := slices.IndexFunc(o.Steps, func(step string) bool { return loosens(made, i, step, modes.Of(step)) })
		if o.Until.IsZero() && loosened >= 0 {
			warn("loosens %s for ever; give it an end with until", o.Steps[loosened])
		}
		subjects := slices.Concat(o.Users, o.Groups)
		if anyone := slices.IndexFunc(subjects, actsForAnyone); anyone >= 0 && loosened >= 0 && !all[i].narrows(nil) {
			warn("loosens %s for all users: %s sends what any of them asks for; name namespaces as well", o.Steps[loosened], subjects[anyone])
		}
		for _, step := range o.Steps {
			if o.EnforcePercent > 0 && modes.Of(step) != admit.Enforce {
				warn("enforces %s for some workloads, but without it the mode is %s; leave the step out of modes", step, modes.Of(step))
			}
		}
	}
	return texts
}

// shadow returns the name of an override that leaves nothing to override i; "" if none does.
func (all List) shadow(i int) string {
	for n := range all[:i] {
		before := &all[n]
		if !slices.ContainsFunc(all[i].Steps, func(step string) bool { return !slices.Contains(before.Steps, step) }) && before.covers(&all[i]) {
			return before.Name
		}
	}
	return ""
}

// covers reports whether an override matches every request that another matches, as far as that is easily seen.
func (o *Spec) covers(other *Spec) bool {
	return (len(o.Namespaces) == 0 || len(other.Namespaces) > 0 && within(other.Namespaces, o.Namespaces)) && // the cheapest first
		(o.anyUser() || !other.anyUser() && within(other.Users, o.Users) && within(other.Groups, o.Groups)) &&
		(selector.Empty(o.Selector) || o.Mode == other.Mode && reflect.DeepEqual(o.Selector, other.Selector)) &&
		(selector.Empty(o.NamespaceSelector) || reflect.DeepEqual(o.NamespaceSelector, other.NamespaceSelector)) && o.endsAfter(other)
}

// endsAfter reports whether the override lasts at least as long as another.
func (o *Spec) endsAfter(other *Spec) bool {
	end, otherEnd := o.End(), other.End()
	return end.IsZero() || !otherEnd.IsZero() && !otherEnd.After(end)
}

// anyUser reports whether the override has no condition on users.
func (o *Spec) anyUser() bool { return len(o.Users)+len(o.Groups) == 0 }

// within reports whether all names are in a list.
func within(names, list []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(list, name) })
}

// Ending returns a sentence about each override that has ended, or that ends within 14 days.
func (all List) Ending(now time.Time) (texts []string) {
	for _, o := range all.Compile() {
		switch left := o.Until.Sub(now); {
		case o.Until.IsZero():
		case o.Void(now):
			texts = append(texts, fmt.Sprintf("override %s has ended, after %s, and has no effect; remove it from the policy", o.Name, o.UntilText()))
		case left <= expirySoon:
			texts = append(texts, fmt.Sprintf("override %s ends after %s, in %s; then the other modes of %s hold: %s",
				o.Name, o.UntilText(), inDays(left), admit.SomeNames(o.Steps), o.Because()))
		}
	}
	return texts
}

// inDays returns a duration in whole days, or hours if it is less than two days.
func inDays(d time.Duration) string {
	if hours := int(d.Hours()); hours < 48 {
		return fmt.Sprintf("%d hours", hours)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
