package process

import (
	"slices"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/test/harness"
)

// What holds for every step of the program.

// TestValidatorsDoNotEdit: no validator edits, whatever sample it checks, and each of them has a sample.
func TestValidatorsDoNotEdit(t *testing.T) {
	ran := map[string]bool{}
	routes := slices.DeleteFunc(sampleWorld(t).Routes(), func(r handlers.Route) bool { return r.Chain.Mutates() })
	for _, name := range harness.Samples(t) {
		body := harness.ReadSample(t, name)
		for _, r := range routes {
			d := r.Decide(t.Context(), body, func(_ *admit.Request, done admit.StepResult) { ran[done.Name] = true })
			if d.Outcome == handlers.Failed {
				t.Errorf("%s: %s: %v", name, r.Path, d.Err)
			}
		}
	}
	for _, r := range routes {
		for _, s := range r.Chain.Steps() {
			if !ran[s.Name] {
				t.Errorf("no sample reaches %s of %s", s.Name, r.Path)
			}
		}
	}
}
