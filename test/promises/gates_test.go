package promises

import (
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

func TestGates(t *testing.T) {
	open, err := routes.Suites().ParseGates("BindingAdmissionWebhook=true,PodMutatingWebhook=false")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[gate.Name]bool{
		"": true, "BindingAdmissionWebhook": true, "!BindingAdmissionWebhook": false, "PodMutatingWebhook": false,
		"!PodMutatingWebhook": true, "PodValidatingWebhook": true, "ReservationFit": false, "!DisableDeviceResourceSpec": true,
	} {
		if open.On(name) != want {
			t.Errorf("gate %q: %v", name, !want)
		}
	}
	for _, name := range api.ForeignGates() {
		if set, err := routes.Suites().ParseGates(string(name) + "=true"); err != nil || len(set.Warnings()) != 1 {
			t.Errorf("%s: %v, %q", name, err, set.Warnings())
		}
	}
	for _, bad := range []string{"NoSuchGate=true", "BindingAdmissionWebhook", "BindingAdmissionWebhook=maybe"} {
		if _, err := routes.Suites().ParseGates(bad); err == nil || !strings.Contains(err.Error(), "--feature-gates") {
			t.Errorf("--feature-gates=%s: %v", bad, err)
		}
	}
}

// TestEveryGateSwitchesSomething: a gate in a table is known, and a gate that is known is used.
func TestEveryGateSwitchesSomething(t *testing.T) {
	known, source := map[gate.Name]bool{}, harness.Source(t)
	for _, g := range api.Gates() {
		known[g.Name] = true
	}
	used := map[gate.Name]bool{}
	for _, r := range defaultWorld(t).Table() {
		used[gate.Name(strings.TrimPrefix(string(r.Gate), "!"))] = true
		for _, s := range r.Chain.Steps() {
			used[gate.Name(strings.TrimPrefix(string(s.Gate), "!"))] = true
		}
	}
	delete(used, "")
	for name := range used {
		if !known[name] {
			t.Errorf("gate %s of a table is not in colocation/api/gates.go", name)
		}
	}
	for name := range known {
		if !used[name] && !strings.Contains(source, "On(api.Gate"+string(name)+")") {
			t.Errorf("gate %s switches nothing", name)
		}
	}
}

// TestGatesSwitchSteps: what a gate closes is not served, and a route without steps is none.
func TestGatesSwitchSteps(t *testing.T) {
	chain := admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{{Name: "a", Gate: "A"}, {Name: "b", Gate: "!A"}, {Name: "c"}})
	var left []string
	for _, s := range chain.Gated(func(name gate.Name) bool { return name != "A" }).Steps() {
		left = append(left, s.Name)
	}
	if strings.Join(left, "") != "bc" || len(chain.Steps()) != 3 {
		t.Errorf("left %v of %d", left, len(chain.Steps()))
	}
}
