package review

import (
	"slices"
	"testing"
)

// TestJudge: a verdict holds only if nothing that is not known here could change it.
func TestJudge(t *testing.T) {
	passes, asks := Step{Name: "a", Mode: "enforce"}, Step{Name: "b", Mode: "enforce", Unknown: []string{"the Namespace n"}}
	refuses, mayRefuse := passes, asks
	refuses.Refused, mayRefuse.Refused = []string{"no"}, []string{"no"}
	mutate := func(steps ...Step) Call { return Call{Path: "/mutate-pods", Outcome: "mutated", Steps: steps} }
	validate := func(outcome string, steps ...Step) Call {
		return Call{Path: "/validate-pods", Outcome: outcome, Steps: steps}
	}
	for _, c := range []struct {
		name  string
		calls []Call
		want  Verdict
	}{
		{"all known", []Call{mutate(passes), validate("allowed", passes)}, Allowed},
		{"a check asks", []Call{validate("allowed", passes, asks)}, NotJudged},
		{"a change asks", []Call{mutate(asks), validate("allowed", passes)}, NotJudged},
		{"refused", []Call{validate("denied", refuses)}, Denied},
		{"refused whatever the other answers", []Call{validate("denied", asks, refuses), validate("allowed", asks)}, Denied},
		{"refused by another route", []Call{validate("allowed", asks), validate("denied", refuses)}, Denied},
		{"refused because of what is not known", []Call{validate("denied", mayRefuse)}, NotJudged},
		{"refused after a change that may be another", []Call{mutate(asks), validate("denied", refuses)}, NotJudged},
		{"refused before any step", []Call{validate("denied")}, Denied},
		{"failed", []Call{validate("error", passes), validate("allowed", passes)}, Errored},
		{"failed for what is not known", []Call{{Path: "/validate-rules", Outcome: "error", failedFor: []string{"the Namespace n"}}}, NotJudged},
		{"failed and refused", []Call{validate("error", passes), validate("denied", refuses)}, Denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Report{Verdict: Allowed, Sections: Sections{Calls: c.calls}}
			if r.judge(); r.Verdict != c.want {
				t.Errorf("%s, want %s", r.Verdict, c.want)
			}
			asked := slices.ContainsFunc(c.calls, func(c Call) bool { return len(c.unknown()) > 0 })
			if asked != (len(r.Unjudged) > 0) {
				t.Errorf("%s, and what is not known is %q", r.Verdict, r.Unjudged)
			}
		})
	}
}
