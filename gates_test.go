package main

import (
	"strings"
	"testing"

	"usher.dev/usher/admit"
)

func TestGates(t *testing.T) {
	open, err := parseGates("BindingAdmissionWebhook=true,PodMutatingWebhook=false")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"": true, "BindingAdmissionWebhook": true, "!BindingAdmissionWebhook": false, "PodMutatingWebhook": false,
		"!PodMutatingWebhook": true, "PodValidatingWebhook": true, "ReservationFit": false, "!DisableDeviceResourceSpec": true,
	} {
		if open.on(name) != want {
			t.Errorf("gate %q: %v", name, !want)
		}
	}
	for _, bad := range []string{"NoSuchGate=true", "BindingAdmissionWebhook", "BindingAdmissionWebhook=maybe"} {
		if _, err := parseGates(bad); err == nil || !strings.Contains(err.Error(), "--feature-gates") {
			t.Errorf("--feature-gates=%s: %v", bad, err)
		}
	}
}

// TestEveryGateSwitchesSomething: a gate in a table is known, and a gate that is known is used.
func TestEveryGateSwitchesSomething(t *testing.T) {
	known, source := map[string]bool{}, readFile(t, "routes.go")+readFile(t, "quotas.go")
	for _, g := range knownGates() {
		known[g.name] = true
	}
	used := map[string]bool{}
	for _, r := range table(defaultWorld(t)) {
		used[strings.TrimPrefix(r.Gate, "!")] = true
		for _, s := range r.Chain.Steps() {
			used[strings.TrimPrefix(s.Gate, "!")] = true
		}
	}
	delete(used, "")
	for name := range used {
		if !known[name] {
			t.Errorf("gate %s of a table is not in gates.go", name)
		}
	}
	for name := range known {
		if !used[name] && !strings.Contains(source, `on("`+name+`")`) {
			t.Errorf("gate %s switches nothing", name)
		}
	}
}

// TestGatesSwitchSteps: what a gate closes is not served, and a route without steps is none.
func TestGatesSwitchSteps(t *testing.T) {
	chain := admit.Mutate(admit.AsPod, nil, []admit.Mutator[admit.Pod]{{Name: "a", Gate: "A"}, {Name: "b", Gate: "!A"}, {Name: "c"}})
	var left []string
	for _, s := range chain.Gated(func(gate string) bool { return gate != "A" }).Steps() {
		left = append(left, s.Name)
	}
	if strings.Join(left, "") != "bc" || len(chain.Steps()) != 3 {
		t.Errorf("left %v of %d", left, len(chain.Steps()))
	}
}
