package suite

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
)

// TestAroundRoute: the mode of a step for nodes depends on no namespace, so that heartbeats do not wait for one.
func TestAroundRoute(t *testing.T) {
	around := override.Context{Namespace: func(string) (ns admit.Namespace, known bool, err error) { return ns, false, admit.ErrNotReady }}
	namespaces := admit.Pods()
	namespaces[0].Kind.Kind, namespaces[0].Scope = "Namespace", registration.ClusterScope
	for _, c := range []struct {
		name string
		is   []admit.Match
		asks bool
	}{
		{"pods", admit.Pods(admissionv1.Create), true},
		{"nodes", admit.NodeStatus(), false},
		{"pods and nodes", append(admit.Pods(admissionv1.Create), admit.NodeStatus()...), true},
		{"Namespaces", namespaces, true},
		{"what another policy says", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := aroundRoute(admit.Route{For: c.is}, around).Namespace != nil; got != c.asks {
				t.Errorf("a namespace may be asked for: %v, want %v", got, c.asks)
			}
		})
	}
}
