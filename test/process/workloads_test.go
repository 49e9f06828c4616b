package process

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// deploymentIn returns the review of a Deployment without labels of the cluster's samples.
func deploymentIn(namespace string) []byte {
	kind := `{"group":"apps","version":"v1","kind":"Deployment"}`
	return fmt.Appendf(nil, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7d1f8a52","kind":%s,"requestKind":%s,
		"resource":{"group":"apps","version":"v1","resource":"deployments"},"name":"web","namespace":%q,"operation":"CREATE","userInfo":{"username":"developer"},
		"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":%q},"spec":{"template":{"metadata":{
			"labels":{"app.kubernetes.io/version":"1.0","team":"shop"}},"spec":{"containers":[{"name":"app","image":"app:1"}]}}}}}}`, kind, kind, namespace, namespace)
}

// TestWorkloadsBySuites: where the core suite is called first, what it makes of the pods counts for the colocation suite, too; what it
// refuses is left to its own route.
func TestWorkloadsBySuites(t *testing.T) {
	suites := routes.Suites()
	const qos = "labelDefaults:\n- labels: [{key: koordinator.sh/qosClass, value: LSR}]\n"
	for _, c := range []struct{ name, policy, namespace, core, colocation string }{
		{"a default of the core suite", qos, "apps", "", "qos-priority: koordinator.sh/qosClass=LSR"},
		{"a namespace that has not opted in", qos, "batch", "", ""},
		{"a refusal of a core mutator", qos + "lifespan: {label: team, taint: left, max: 14}\n", "apps", "lifespan: ", ""},
		{"a refusal of a core check", qos + "labelRules: [{name: tier, label: tier, required: true}]\n", "apps", "label-rules: rule tier", "qos-priority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mux := harness.DefaultServer().Serve(harness.OpenInstance(t, suites, harness.DemoGates(t, suites), harness.ParsePolicy(t, suites, []byte(c.policy))).Routes())
			for path, want := range map[string]string{"validate-workloads": c.core, "validate-workload": c.colocation} {
				got := harness.Post(mux, path+"/x", deploymentIn(c.namespace)).Body.String()
				if denied := strings.Contains(got, "its pods would be denied"); denied != (want != "") || !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %q", path, got, want)
				}
			}
		})
	}
}

// TestWorkloadsOfQuotas: a quota that does not exist yet does not keep a workload from being created, and its author hears that pods
// are refused without it; a parent takes none.
func TestWorkloadsOfQuotas(t *testing.T) {
	const parent = "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: org, namespace: team, labels: {quota.scheduling.koordinator.sh/is-parent: 'true'}}\n---\n"
	for quota, want := range map[string]string{"typo": `no elastic quota is named "typo" yet: pods are refused until there is one`, "org": "would be denied: ", "team": `"allowed":true}`} {
		body := strings.Replace(string(deploymentIn("team")), `"labels":{`, `"labels":{"quota.scheduling.koordinator.sh/name":"`+quota+`",`, 1)
		answer := harness.Post(devicesMux(t, "EnableQuotaAdmission=true", devicesQuota+parent), "validate-workload/x", []byte(body)).Body.String()
		if answer = strings.ReplaceAll(answer, `\"`, `"`); !strings.Contains(answer, want) {
			t.Errorf("%s: %s", quota, answer)
		}
	}
}

// TestWorkloadsWithoutResult: a rule without a result for the pods is said where workloads are not refused, and otherwise fails as it
// does for the pods. A refusal counts more.
func TestWorkloadsWithoutResult(t *testing.T) {
	const rule = `rules:
- name: cost-center
  onError: fail
  match: {apiGroups: [""], resources: [pods], operations: [CREATE]}
  validations:
  - {expression: "object.metadata.annotations['cost-center'].startsWith('cc-')", message: begin it with cc-}
`
	const refuses = "imageRules: [{name: versions, repositories: [registry.example.com/**]}]\n"
	told := "its pods could not be judged, and usher would fail for them (HTTP 500): rule cost-center has no result: "
	suites := routes.Suites()
	for _, c := range []struct {
		name, policy string
		code         int
		want         []string
	}{
		{"warn", rule, http.StatusOK, []string{`"allowed":true`, told, "no such key: annotations", `"not-judged.workloads":"rules without a result: 1"`}},
		{"enforce", rule + "workloads: {mode: enforce}\n", http.StatusInternalServerError, []string{"internal error; usher's log says more"}},
		{"off", rule + "workloads: {mode: 'off'}\n", http.StatusOK, []string{`"allowed":true`}},
		{"refused as well", rule + refuses, http.StatusOK, []string{"its pods would be denied"}},
		{"refused as well, and enforced", rule + refuses + "workloads: {mode: enforce}\n", http.StatusOK, []string{`"allowed":false`, "image-rules: rule versions"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mux := harness.DefaultServer().Serve(harness.OpenInstance(t, suites, harness.DemoGates(t, suites), harness.ParsePolicy(t, suites, []byte(c.policy))).Routes())
			w := harness.Post(mux, "validate-workloads/x", deploymentIn("apps"))
			missing := slices.DeleteFunc(c.want, func(text string) bool { return strings.Contains(w.Body.String(), text) })
			if w.Code != c.code || len(missing) > 0 {
				t.Errorf("HTTP %d, want %d: %s lacks %q", w.Code, c.code, w.Body, missing)
			}
		})
	}
}
