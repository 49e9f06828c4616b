package webhooks

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
)

// TestExcludedPods: the service accounts are read back from the conditions for pods and for templates, and from no other.
func TestExcludedPods(t *testing.T) {
	accounts := []string{"disk/csi", "net/cni"}
	for _, c := range []func([]string) []string{
		func(a []string) []string { return excludedPods(notExcludedPods(a)) },
		func(a []string) []string { return excludedPods(notExcludedTemplates(a)) },
	} {
		if got := c(accounts); !slices.Equal(got, accounts) {
			t.Errorf("%q, want %q", got, accounts)
		}
	}
	other := notExcludedTemplates(accounts)
	other.Expression = "true || " + other.Expression
	if got := excludedPods(other); got != nil {
		t.Errorf("of somebody else's condition: %q", got)
	}
}

// TestExcludedPodsOfWorkloads: what is excluded is not sent as a workload either.
func TestExcludedPodsOfWorkloads(t *testing.T) {
	at := Address{Service: "usher", Namespace: "usher", ExcludedPods: []string{"net/cni"}}
	for _, c := range []struct {
		name string
		of   []admit.Match
		want []registration.MatchCondition
	}{
		{"pods", admit.Pods(admissionv1.Create), []registration.MatchCondition{notExcludedPods(at.ExcludedPods)}},
		{"workloads", admit.PodTemplates(admissionv1.Create), []registration.MatchCondition{notExcludedTemplates(at.ExcludedPods)}},
		{"Namespaces", admit.Namespaces(admissionv1.Create), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := conditions(Entry{Route: admit.Route{For: c.of}}, at); !slices.Equal(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
