package process

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
)

// TestNeedsAreDeclared: what a step needs is a collection of the catalogue, and each collection of the catalogue is
// needed by some step.
func TestNeedsAreDeclared(t *testing.T) {
	catalogue := collections.Catalogue(types.NamespacedName{}, types.NamespacedName{})
	needed := map[string]bool{}
	for _, r := range routes.Suites().Table(harness.DefaultPolicy(t, routes.Suites()), gate.Defaults(api.Gates())) {
		for _, s := range r.Chain.Steps() {
			for _, name := range s.Needs {
				needed[name] = true
				if _, err := cluster.Files("", cluster.Options{Catalogue: catalogue, Needs: []string{name}}); err != nil {
					t.Errorf("step %s: %v", s.Name, err)
				}
			}
		}
	}
	if len(needed) < len(catalogue) {
		t.Errorf("of %d collections steps need only %v", len(catalogue), slices.Sorted(maps.Keys(needed)))
	}
}

// TestOneGateAlone: with each gate alone enabled, and whatever else its steps and routes require, the server starts and
// answers: what a step reads does not depend on other gates.
func TestOneGateAlone(t *testing.T) {
	alone := map[string][]gate.Name{}
	for _, g := range api.Gates() {
		alone[string(g.Name)] = []gate.Name{g.Name}
	}
	for _, r := range routes.Suites().Table(harness.DefaultPolicy(t, routes.Suites()), gate.Defaults(api.Gates())) {
		for _, s := range r.Chain.Steps() {
			alone["step "+s.Name] = []gate.Name{r.Gate, s.Gate}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(alone)) {
		t.Run(name, func(t *testing.T) { answersWith(t, alone[name]) })
	}
}

// answersWith starts a server with the given gates enabled, and no others.
func answersWith(t *testing.T, on []gate.Name) {
	w := harness.OpenInstance(t, routes.Suites(), onlyGates(t, on), harness.DefaultPolicy(t, routes.Suites()))
	if err := w.Cluster.Ready(); err != nil {
		t.Error(err)
	}
	answersAll(t, w)
	policy, problems := config.Parse([]byte(harness.ReadFile(t, "samples/policy.yaml")), routes.Suites().Schema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w.Policy = policy // it has every section, so that every source is asked
	answersAll(t, w)
}

// answersAll posts all samples of the colocation suite's routes that are served.
func answersAll(t *testing.T, w suite.Instance) {
	served := w.Routes()
	edge, name := harness.DefaultServer(), ""
	edge.Observe = func(_ admit.Route, d handlers.Decision, _ time.Duration) { // a heartbeat passes all the same
		if d.Stack != nil || d.Err != nil && strings.Contains(d.Err.Error(), "cluster state") {
			t.Errorf("%s: %v", name, d.Err)
		}
	}
	mux := edge.Serve(served)
	for _, r := range served {
		if r.Suite != colocation.Name {
			continue
		}
		for _, file := range harness.SampleFiles(t, r.Path) {
			name = strings.TrimPrefix(r.Path, "/") + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
			if answer := harness.Post(mux, name, harness.ReadSample(t, name)); answer.Code >= http.StatusInternalServerError {
				t.Errorf("%s: %d %s", name, answer.Code, answer.Body)
			}
		}
	}
}

// onlyGates returns the gates with the given ones on and all others off; an inverted gate, which a step may have, stays
// off.
func onlyGates(t *testing.T, on []gate.Name) gate.Set {
	t.Helper()
	var items []string
	for _, g := range api.Gates() {
		value := "=false"
		if slices.Contains(on, g.Name) {
			value = "=true"
		}
		items = append(items, string(g.Name)+value)
	}
	set, err := routes.Suites().ParseGates(strings.Join(items, ","))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestNeedsFollowGates: what is watched, and what usher may read, is exactly what the served steps need, and the
// namespaces, which overrides may select by their labels.
func TestNeedsFollowGates(t *testing.T) {
	for _, c := range []struct {
		name string
		on   []gate.Name
		want string
	}{
		{"nothing but the core", nil, "namespaces limitranges"},
		{"a step without its route", []gate.Name{api.GateReservationFit}, "namespaces limitranges"},
		{"a step and its route", []gate.Name{api.GateReservationFit, api.GatePodValidatingWebhook}, "namespaces limitranges priorityclasses reservations nodes elasticquotas"},
		{"quotas", []gate.Name{api.GateElasticValidatingWebhook}, "namespaces limitranges podrequests elasticquotas"},
		{"one ConfigMap", []gate.Name{api.GateNodeMutatingWebhook}, "namespaces limitranges sloconfig nodemetrics"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, s := range harness.OpenInstance(t, routes.Suites(), onlyGates(t, c.on), harness.DefaultPolicy(t, routes.Suites())).Cluster.Status() {
				got = append(got, s.Name)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
