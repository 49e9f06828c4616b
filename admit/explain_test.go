package admit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestExplain: a step's lines are in its result only if they are wanted; long ones are cut, and a refusal names its
// field.
func TestExplain(t *testing.T) {
	steps := func(refused field.ErrorList) []Validator[Pod] {
		return []Validator[Pod]{
			{Name: "one", Run: func(_ context.Context, req *Request, _ *Pod) (field.ErrorList, error) {
				req.Explain("label %s is %q", "a", "b")
				return refused, nil
			}},
			{Name: "two", Run: func(_ context.Context, req *Request, _ *Pod) (field.ErrorList, error) {
				req.Explain("%s %s", strings.Repeat("x", 200), strings.Repeat("y", 100))
				return nil, nil
			}},
		}
	}
	cut := strings.Repeat("x", 119) + "… " + strings.Repeat("y", 38) + "…"
	for _, c := range []struct {
		name    string
		chain   Chain
		problem bool
		want    [2][]string
	}{
		{"not wanted", Validate(AsPod, steps(nil)), false, [2][]string{}},
		{"wanted", Validate(AsPod, steps(nil)).Explained(), false, [2][]string{{`label a is "b"`}, {cut}}},
		{"of a refusal", Validate(AsPod, steps(field.ErrorList{refusal})).Explained(), true,
			[2][]string{{`label a is "b"`, "refuses the request because of spec.x"}, {cut}}},
		{"in mode dryrun", Validate(AsPod, steps(field.ErrorList{refusal})).WithModes(Modes{"one": DryRun}).Explained(), false,
			[2][]string{{`label a is "b"`, "refuses the request because of spec.x"}, {cut}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := c.chain.Run(t.Context(), podRequest(t), nil)
			if err != nil || len(result.Steps) != 2 || (len(result.Problems) > 0) != c.problem {
				t.Fatalf("%+v, %v", result, err)
			}
			for i, s := range result.Steps {
				if !slices.Equal(s.Why, c.want[i]) {
					t.Errorf("%s: %q, want %q", s.Name, s.Why, c.want[i])
				}
			}
		})
	}
}

// TestExplainChanges: what a mutator changes is explained by its edits, and one that changes nothing and says nothing left
// the object as it would.
func TestExplainChanges(t *testing.T) {
	lots := func(pod *Pod) {
		for i := range 10 {
			pod.SetLabel(fmt.Sprint("l", i), "v")
		}
	}
	for _, c := range []struct {
		name string
		edit func(*Pod)
		mode Mode
		want []string
	}{
		{"nothing", func(*Pod) {}, Enforce, []string{"the object is already as the step would leave it"}},
		{"cancelled out", func(pod *Pod) { pod.SetLabel("a", "b"); pod.RemoveLabel("a") }, Enforce,
			[]string{"the object is already as the step would leave it"}},
		{"a label", func(pod *Pod) { pod.SetLabel("a", "b") }, Enforce, []string{`adds metadata.labels.a: "b"`}},
		{"dry run", func(pod *Pod) { pod.SetLabel("a", "b") }, DryRun, []string{`adds metadata.labels.a: "b"`}},
		{"a long value", func(pod *Pod) { pod.SetLabel("a", strings.Repeat("x", 200)) }, Enforce,
			[]string{`adds metadata.labels.a: "` + strings.Repeat("x", 118) + "…"}},
		{"many", lots, Enforce, []string{`adds metadata.labels.l0: "v"`, `adds metadata.labels.l1: "v"`, `adds metadata.labels.l2: "v"`,
			`adds metadata.labels.l3: "v"`, `adds metadata.labels.l4: "v"`, `adds metadata.labels.l5: "v"`, `adds metadata.labels.l6: "v"`,
			`adds metadata.labels.l7: "v"`, "and 2 more changes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := Mutator[Pod]{Name: "one", Run: func(_ context.Context, _ *Request, pod *Pod) error { c.edit(pod); return nil }}
			chain := Mutate(AsPod, []Mutator[Pod]{step}).WithModes(Modes{"one": c.mode}).Explained()
			result, err := chain.Run(t.Context(), podRequest(t), nil)
			if err != nil || !slices.Equal(result.Steps[0].Why, c.want) {
				t.Errorf("%q, %v, want %q", result.Steps[0].Why, err, c.want)
			}
			result, err = chain.HidingValues().Run(t.Context(), podRequest(t), nil)
			if text := strings.Join(result.Steps[0].Why, "\n"); err != nil || strings.ContainsAny(text, `":`) {
				t.Errorf("values are shown: %s, %v", text, err)
			}
		})
	}
}

// TestExplainCostsNothing: a line that is not wanted does not allocate, whatever strings it is made of.
func TestExplainCostsNothing(t *testing.T) {
	req, name := podRequest(t), strings.Repeat("n", 100)
	if n := testing.AllocsPerRun(100, func() { req.Explain("the name is %s of %s", name, req.Namespace) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
