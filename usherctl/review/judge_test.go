package review

import (
	"slices"
	"testing"

	"usher.dev/usher/usherctl/report"
)

// TestJudge: a verdict holds only if nothing that is not known here could change it.
func TestJudge(t *testing.T) {
	passes, asks := report.Step{Name: "a", Mode: "enforce"}, report.Step{Name: "b", Mode: "enforce", Unknown: []string{"the Namespace n"}}
	refuses, mayRefuse := passes, asks
	refuses.Refused, mayRefuse.Refused = []string{"no"}, []string{"no"}
	mutate := func(steps ...report.Step) report.Call {
		return report.Call{Path: "/mutate-pods", Outcome: "mutated", Steps: steps}
	}
	validate := func(outcome string, steps ...report.Step) report.Call {
		return report.Call{Path: "/validate-pods", Outcome: outcome, Steps: steps}
	}
	for _, c := range []struct {
		name  string
		calls []report.Call
		want  report.Verdict
	}{
		{"all known", []report.Call{mutate(passes), validate("allowed", passes)}, report.Allowed},
		{"a check asks", []report.Call{validate("allowed", passes, asks)}, report.NotJudged},
		{"a change asks", []report.Call{mutate(asks), validate("allowed", passes)}, report.NotJudged},
		{"refused", []report.Call{validate("denied", refuses)}, report.Denied},
		{"refused whatever the other answers", []report.Call{validate("denied", asks, refuses), validate("allowed", asks)}, report.Denied},
		{"refused by another route", []report.Call{validate("allowed", asks), validate("denied", refuses)}, report.Denied},
		{"refused because of what is not known", []report.Call{validate("denied", mayRefuse)}, report.NotJudged},
		{"refused after a change that may be another", []report.Call{mutate(asks), validate("denied", refuses)}, report.NotJudged},
		{"refused before any step", []report.Call{validate("denied")}, report.Denied},
		{"failed", []report.Call{validate("error", passes), validate("allowed", passes)}, report.Errored},
		{"failed for what is not known", []report.Call{{Path: "/validate-rules", Outcome: "error", FailedFor: []string{"the Namespace n"}}}, report.NotJudged},
		{"failed and refused", []report.Call{validate("error", passes), validate("denied", refuses)}, report.Denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reviewed{report.Report{Verdict: report.Allowed, Sections: report.Sections{Calls: c.calls}}}
			if r.judge(); r.Verdict != c.want {
				t.Errorf("%s, want %s", r.Verdict, c.want)
			}
			asked := slices.ContainsFunc(c.calls, func(c report.Call) bool { return len(c.Unjudged()) > 0 })
			if asked != (len(r.Unjudged) > 0) {
				t.Errorf("%s, and what is not known is %q", r.Verdict, r.Unjudged)
			}
		})
	}
}
