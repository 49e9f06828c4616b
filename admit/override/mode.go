package override

import (
	"fmt"
	"slices"

	"usher.dev/usher/admit"
)

// ofUser reports whether the user of the request is one of those that the override is for.
func (o *stepOverride) ofUser(req *admit.Request) bool {
	if len(o.Users)+len(o.Groups) == 0 || slices.Contains(o.Users, req.UserInfo.Username) {
		return true
	}
	return slices.ContainsFunc(req.UserInfo.Groups, func(group string) bool { return slices.Contains(o.Groups, group) })
}

// modeFor returns the mode that the override sets for a request that it matches.
func (o *stepOverride) modeFor(req *admit.Request) admit.Mode {
	if o.EnforcePercent > 0 && req.Origin().Draw(o.Name) < o.EnforcePercent {
		return admit.Enforce
	}
	return o.Mode
}

// details says how the override chose the mode for a request, and how long it will.
func (o *stepOverride) details(req *admit.Request) (text string) {
	if o.EnforcePercent > 0 {
		origin := req.Origin()
		text = fmt.Sprintf(" (%s %s draws %d, enforcePercent is %d)", origin.Kind, origin.Name, origin.Draw(o.Name), o.EnforcePercent)
	}
	if end := o.UntilText(); end != "" {
		text += " until " + end
	}
	return text
}

// loosens reports whether one of several overrides may set a weaker mode for a step than the step has without it, in
// its own mode, which base is, or by a later override.
func loosens(overrides []admit.Override, i int, step string, base admit.Mode) bool {
	least := rank(base)
	for n := i + 1; n < len(overrides) && least > 0; n++ { // none is stricter than 0, and there may be thousands of overrides
		if later := &overrides[n]; later.Concerns(step) {
			least = min(least, rank(strictest(later)))
		}
	}
	return rank(overrides[i].Mode) > least
}

// strictest returns the strictest mode that the override sets.
func strictest(o *admit.Override) admit.Mode {
	if o.EnforcePercent > 0 {
		return admit.Enforce
	}
	return o.Mode
}

// rank returns the position of a mode in admit.AllModes, from 0, the strictest; an unset mode is enforced.
func rank(m admit.Mode) int { return max(0, slices.Index(admit.AllModes, m)) }
