package suite

import (
	"fmt"
	"slices"
	"strings"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
)

// Off returns the routes that the gates switch off. An API server may still call them: see admit.Route.Off.
func (in Instance) Off() (off []admit.Route) {
	on := in.Routes()
	for _, r := range in.Table() {
		if !slices.ContainsFunc(on, func(other admit.Route) bool { return other.Path == r.Path }) {
			r.Off = true
			off = append(off, r)
		}
	}
	return off
}

// SwitchesOn returns the gates that switch a route on which they switch off, such as "A=true,B=false"; empty if there is none.
func (in Instance) SwitchesOn(path string) string {
	off := in.Off()
	i := slices.IndexFunc(off, func(r admit.Route) bool { return r.Path == path })
	if i < 0 {
		return ""
	}
	names := []gate.Name{off[i].Gate}
	if steps := off[i].Chain.Steps(); len(steps) > 0 && len(off[i].Chain.Gated(in.Gates.On).Steps()) == 0 {
		names = append(names, steps[0].Gate)
	}
	var settings []string
	for _, name := range names {
		if bare, negated := strings.CutPrefix(string(name), "!"); !in.Gates.On(name) {
			settings = append(settings, fmt.Sprintf("%s=%t", bare, !negated))
		}
	}
	return strings.Join(settings, ",")
}
