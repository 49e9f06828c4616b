package process

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// What holds for every step of the program.

// TestValidatorsDoNotEdit: no validator edits, whatever sample it checks, and each of them has a sample.
func TestValidatorsDoNotEdit(t *testing.T) {
	ran := map[string]bool{}
	instances := harness.NewInstances(routes.Suites())
	validating := func(all []admit.Route) []admit.Route {
		return slices.DeleteFunc(all, func(r admit.Route) bool { return r.Chain.Mutates() })
	}
	for _, name := range harness.Samples(t) {
		body := harness.ReadSample(t, name)
		for _, r := range validating(instances.Of(t, name).Routes()) {
			d := handlers.Decide(t.Context(), r, body, func(_ *admit.Request, done admit.StepResult) { ran[done.Name] = true })
			if d.Outcome == handlers.Failed {
				t.Errorf("%s: %s: %v", name, r.Path, d.Err)
			}
		}
	}
	wantAllRan(t, validating(sampleInstance(t).Routes()), ran)
}

// TestEveryStepSaysWhy: with explanations each step says why it did what it did, or nothing, in plain short lines, and
// the answer is the same as without.
func TestEveryStepSaysWhy(t *testing.T) {
	ran := map[string]bool{}
	plainInstances, explainedInstances := harness.NewInstances(routes.Suites()), harness.NewInstances(routes.Suites()) // two of each: the quota ledger remembers
	for _, name := range harness.Samples(t) {
		body := harness.ReadSample(t, name)
		explained := explainedInstances.Of(t, name).Routes()
		for i, r := range plainInstances.Of(t, name).Routes() {
			want := handlers.Decide(t.Context(), r, body, func(_ *admit.Request, done admit.StepResult) {
				if done.Why != nil {
					t.Errorf("%s: %s: %s explains itself unasked", name, r.Path, done.Name)
				}
			})
			e := explained[i]
			e.Chain = e.Chain.Explained()
			got := handlers.Decide(t.Context(), e, body, func(_ *admit.Request, done admit.StepResult) {
				ran[done.Name] = true
				wantPlainLines(t, name+": "+r.Path+": "+done.Name, done.Why)
			})
			if answer(got) != answer(want) {
				t.Errorf("%s: %s: explained %s, else %s", name, r.Path, answer(got), answer(want))
			}
		}
	}
	wantAllRan(t, sampleInstance(t).Routes(), ran)
}

func wantAllRan(t *testing.T, routes []admit.Route, ran map[string]bool) {
	t.Helper()
	for _, r := range routes {
		for _, s := range r.Chain.Steps() {
			if !ran[s.Name] {
				t.Errorf("no sample reaches %s of %s", s.Name, r.Path)
			}
		}
	}
}

func wantPlainLines(t *testing.T, step string, lines []string) {
	t.Helper()
	if len(lines) == 0 {
		t.Errorf("%s does not say why", step)
	}
	for _, line := range lines {
		bad := func(text string) bool { return strings.Contains(line, text) }
		if utf8.RuneCountInString(line) > 160 || strings.TrimSpace(line) != line || line == "" ||
			slices.ContainsFunc([]string{"%!", "<nil>", "&{", "map[", "0x", "\n", "  "}, bad) {
			t.Errorf("%s: no plain line: %q", step, line)
		}
	}
}

// answer returns the verdict, the patch, the warnings and the audit annotations of a decision.
func answer(d handlers.Decision) string {
	if d.Response == nil {
		return string(d.Outcome)
	}
	text := string(d.Outcome) + " " + string(d.Response.Patch) + " " + strings.Join(d.Response.Warnings, "; ")
	if d.Response.Result != nil {
		text += " " + d.Response.Result.Message
	}
	for _, key := range slices.Sorted(maps.Keys(d.Response.AuditAnnotations)) {
		text += " " + key + "=" + d.Response.AuditAnnotations[key]
	}
	return text
}
