package main

import (
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/handlers"
	"usher.dev/usher/validators"
)

// TestUndeclaredNeed: a step that asks about what it does not declare gets no answer, but an HTTP 500, though another step of the chain
// declares it. It is our fault, whatever the object.
func TestUndeclaredNeed(t *testing.T) {
	wing := &Wing{}
	w := openWorld(t, Suites{wing.Suite()}, demoGates(t, Suites{wing.Suite()}), parsePolicy(t, Suites{wing.Suite()}, []byte(wing.Suite().DefaultPolicy)))
	all := w.routes()
	binding := all[slices.IndexFunc(all, func(r handlers.Route) bool { return r.Path == "/validate-pod-binding" })]
	with := func(needs ...string) handlers.Route {
		r := binding
		r.Chain = deps{policy: w.policy, gates: w.gates, state: wing.state, known: wing.options}.chain(func(ask questions) admit.Chain {
			declared, undeclared := validators.Bindings(w.policy, ask.Pod), validators.Bindings(w.policy, ask.Pod)
			for i := range undeclared {
				undeclared[i].Needs = needs
			}
			return admit.Validate(admit.AsBinding, append(declared, undeclared...))
		})
		return r
	}
	body := readSample(t, "validate-pod-binding/binding-denied")
	if d := with(api.CollectionPods).Decide(t.Context(), body, nil); d.Outcome != handlers.Denied {
		t.Errorf("declared: %s: %v", d.Outcome, d.Err)
	}
	for _, needs := range [][]string{nil, {api.CollectionNodes}} {
		d := with(needs...).Decide(t.Context(), body, nil)
		if d.Outcome != handlers.Failed || d.Err == nil || !strings.Contains(d.Err.Error(), "does not declare that it needs them") {
			t.Errorf("needs %v: %s: %v", needs, d.Outcome, d.Err)
		}
	}
}
