package steps

import (
	"fmt"
	"strings"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/usherctl/tool"
)

// overrideRow is an override of the policy.
type overrideRow struct {
	Name           string `json:"name"`
	Mode           string `json:"mode"`
	EnforcePercent int    `json:"enforcePercent,omitempty"`
	Draw           *int   `json:"draw,omitempty"` // of the workload; below EnforcePercent the mode is enforce
	When           string `json:"when,omitempty"` // the conditions
	Until          string `json:"until,omitempty"`
	Ended          bool   `json:"ended,omitempty"`
	Reason         string `json:"reason"`
	Ticket         string `json:"ticket,omitempty"`
}

func rowOf(o *admit.Override, now time.Time) overrideRow {
	return overrideRow{Name: o.Name, Mode: string(o.Mode), EnforcePercent: o.EnforcePercent, When: conditionsOf(o), Until: o.UntilText(),
		Ended: o.Void(now), Reason: o.Reason, Ticket: o.Ticket}
}

// conditionsOf says which requests an override is for; "" for all.
func conditionsOf(o *admit.Override) string {
	var parts []string
	list := func(what string, names []string) {
		if len(names) > 0 {
			parts = append(parts, what+" "+strings.Join(names, ", "))
		}
	}
	list("namespaces", o.Namespaces)
	if o.NamespaceSelector != nil {
		parts = append(parts, "namespaces with "+o.NamespaceSelector.String())
	}
	if o.Selector != nil {
		parts = append(parts, "objects with "+o.Selector.String())
	}
	list("users", o.Users)
	list("groups", o.Groups)
	return strings.Join(parts, "; ")
}

// OverrideText describes an override, with its mode and its conditions.
func OverrideText(o *admit.Override) string { return rowOf(o, time.Now()).text(true) }

// text describes an override, with its mode and its conditions if they are not known to be met.
func (r overrideRow) text(conditions bool) string {
	var b strings.Builder
	if conditions {
		fmt.Fprintf(&b, "%s: ", r.Mode)
	}
	fmt.Fprintf(&b, "override %s", r.Name)
	if conditions && r.When != "" {
		fmt.Fprintf(&b, " (%s)", r.When)
	}
	switch {
	case r.Draw != nil:
		fmt.Fprintf(&b, ", the workload draws %d, enforcePercent is %d", *r.Draw, r.EnforcePercent)
	case r.EnforcePercent > 0:
		fmt.Fprintf(&b, ", enforce for %d %% of the workloads", r.EnforcePercent)
	}
	if r.Until != "" {
		fmt.Fprintf(&b, ", until %s", r.Until)
	}
	if r.Ended {
		b.WriteString(" (ended)")
	}
	fmt.Fprintf(&b, ": %s", r.Reason)
	if r.Ticket != "" {
		fmt.Fprintf(&b, " (%s)", r.Ticket)
	}
	return b.String()
}

// printEnds warns of the overrides that have ended or end soon.
func printEnds(env tool.Env, policy *config.Policy) {
	for _, text := range config.SectionOf[override.List](policy).Ending(time.Now()) {
		_, _ = fmt.Fprintf(env.Out, "warning: %s\n", text)
	}
}
