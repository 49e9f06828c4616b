package colocation

import (
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/validators"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
)

// TestUndeclaredNeed: a step that queries a collection it does not declare fails with HTTP 500, even if another step of
// the chain declares it. It is an internal error, whatever the object.
func TestUndeclaredNeed(t *testing.T) {
	suites := suite.List{Suite()}
	w := harness.OpenInstance(t, suites, harness.DemoGates(t, suites), harness.ParsePolicy(t, suites, suites.Schema().DefaultYAML()))
	all := w.Routes()
	binding := all[slices.IndexFunc(all, func(r admit.Route) bool { return r.Path == "/validate-pod-binding" })]
	with := func(needs ...string) admit.Route {
		r := binding
		r.Chain = deps{Env: w.Env(suites[0])}.chain(func(ask questions) admit.Chain {
			declared, undeclared := validators.Bindings(w.Policy, ask.Pod, quota.Counting{Replace: true}), validators.Bindings(w.Policy, ask.Pod, quota.Counting{Replace: true})
			for i := range undeclared {
				undeclared[i].Needs = needs
			}
			return admit.Validate(views.AsBinding, append(declared, undeclared...))
		})
		return r
	}
	body := harness.ReadSample(t, "validate-pod-binding/binding-denied")
	if d := handlers.Decide(t.Context(), with(api.CollectionPods), body, nil); d.Outcome != handlers.Denied {
		t.Errorf("declared: %s: %v", d.Outcome, d.Err)
	}
	for _, needs := range [][]string{nil, {api.CollectionNodes}} {
		d := handlers.Decide(t.Context(), with(needs...), body, nil)
		if d.Outcome != handlers.Failed || d.Err == nil || !strings.Contains(d.Err.Error(), "does not declare that it needs them") {
			t.Errorf("needs %v: %s: %v", needs, d.Outcome, d.Err)
		}
	}
}
