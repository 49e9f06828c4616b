package webhooks

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
)

// TestWhoMayExempt: every webhook for updates of Namespaces lets administrators exempt one, unless nobody could delete
// its configuration. Whom and what the expression means is tested with an API server in test/e2e/recovery.
func TestWhoMayExempt(t *testing.T) {
	named := func(group, resource string, operation admissionv1.Operation) []admit.Match {
		return []admit.Match{{Rule: admit.Rule{Groups: []string{group}, Versions: []string{"*"}, Resources: []string{resource},
			Operations: []admissionv1.Operation{operation}, Scope: registration.ClusterScope}}}
	}
	one := named("", "namespaces", admissionv1.Update)
	one[0].Names = []string{"production"}
	for _, c := range []struct {
		name string
		is   []admit.Match
		want bool
	}{
		{"updates of namespaces", admit.Namespaces(admissionv1.Update), true},
		{"deletions of namespaces", admit.Namespaces(admissionv1.Delete), false},
		{"named by the policy", named("", "namespaces", admissionv1.Update), true},
		{"one namespace", one, true},
		{"all of the group", named("", "*", admissionv1.Update), true},
		{"all of another group", named("rbac.authorization.k8s.io", "*", admissionv1.Update), false},
		{"a subresource", named("", "namespaces/status", admissionv1.Update), false},
		{"pods", admit.Pods(admissionv1.Update), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			entry := Entries([]admit.Route{{Path: "/validate-x", For: c.is}})[0]
			exempts := func(at Address) bool {
				return slices.ContainsFunc(conditions(entry, at), func(m registration.MatchCondition) bool { return m.Expression == notExempting })
			}
			if got := exempts(Address{}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if exempts(Address{OnDisk: true}) {
				t.Error("also from the API server's disk")
			}
		})
	}
}
