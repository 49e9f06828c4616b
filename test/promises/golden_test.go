package promises

import (
	"context"
	"slices"
	"testing"

	"usher.dev/usher/admit"
)

// TestRowsOfSteps: a step without a row gets one, a row with the doc of before follows the doc, and one that people wrote stays.
func TestRowsOfSteps(t *testing.T) {
	var steps []admit.Mutator[admit.Pod]
	for _, name := range []string{"new", "follows", "written"} {
		steps = append(steps, admit.Mutator[admit.Pod]{Name: name, Doc: "doc of " + name, Run: func(context.Context, *admit.Request, *admit.Pod) error { return nil }})
	}
	r := admit.Route{Path: "/p", Chain: admit.Mutate(admit.AsPod, steps)}
	before := map[string]string{"follows": "what it did", "written": "what it did"}
	got, last := addRows([]string{"|---|", "| `/p` | `follows` | what it did |", "| `/p` | `written` | by people |", "end"}, 0, r, before)
	want := []string{"|---|", "| `/p` | `new` | doc of new |", "| `/p` | `follows` | doc of follows |", "| `/p` | `written` | by people |", "end"}
	if !slices.Equal(got, want) || last != 3 {
		t.Errorf("%q, last %d", got, last)
	}
}
