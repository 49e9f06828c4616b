package doctor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/internal/resources"
	"usher.dev/usher/usherctl/report"
)

// policiesOf returns policies and bindings, in YAML.
func policiesOf(t *testing.T, policies, bindings string) admissionPolicies {
	t.Helper()
	all := admissionPolicies{kind: "ValidatingAdmissionPolicy"}
	decoded := func(kind, text string) []admissionPolicy {
		var list []json.RawMessage
		raw, err := yaml.YAMLToJSON([]byte("[" + text + "]"))
		if err == nil {
			err = json.Unmarshal(raw, &list)
		}
		each, problems := decodePolicies(kind, list)
		if err != nil || len(problems) > 0 {
			t.Fatalf("%v, %v: %s", err, problems, text)
		}
		return each
	}
	all.policies, all.bindings = decoded(all.kind, policies), decoded(all.kind+"Binding", bindings)
	return all
}

// TestAdmissionPolicies: a policy that has no effect, or that refuses since it cannot judge, is found.
func TestAdmissionPolicies(t *testing.T) {
	served := map[string]string{
		"/api/v1":                `{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`,
		"/apis/rules.example/v1": `{"resources":[{"name":"limits","kind":"Limit"}]}`,
		"/api/v1/namespaces/default/configmaps/limits": `{"metadata":{"name":"limits"}}`,
		"/api/v1/namespaces/default/configmaps":        `{"metadata":{},"items":[{"metadata":{"name":"limits","labels":{"a":"b"}}}]}`,
	}
	source := liveSource(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch answer, is := served[r.URL.Path]; {
		case is:
			_, _ = fmt.Fprint(w, answer)
		case strings.Contains(r.URL.Path, "secret"):
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	})
	f := &snapshot{source: source, resources: resources.BuiltIn(), namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"tier": "front"}}}}}
	const policy = `{metadata: {name: p}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [%s]}]}%s}}`
	pods := func(more string) string { return fmt.Sprintf(policy, "pods", more) }
	bound := func(more string) string { return "{metadata: {name: b}, spec: {policyName: p" + more + "}}" }
	const configMaps, ref = ", paramKind: {apiVersion: v1, kind: ConfigMap}", ", paramRef: {namespace: default, name: %s, parameterNotFoundAction: %s}"
	for _, c := range []struct {
		name, policies, bindings, want string
		severity                       report.Severity
		says                           []string
	}{
		{"sound", pods(""), bound(""), "", "", nil},
		{"a singular", fmt.Sprintf(policy, "pod", ""), bound(""), "rule-unknown-resource", report.Error,
			[]string{"did you mean pods?", "never asks the policy", "kubectl edit validatingadmissionpolicy p", "did you mean pods"}},
		{"a kind", fmt.Sprintf(policy, "ConfigMap", ""), bound(""), "rule-unknown-resource", report.Error, []string{"did you mean configmaps?"}},
		{"a constant condition", pods(", matchConditions: [{name: switched, expression: 'false'}]"), bound(""), "match-condition-never", report.Warning,
			[]string{"(switched)", "the policy is never asked", "kubectl edit validatingadmissionpolicy p"}},
		{"a condition that is false for the rules", pods(`, matchConditions: [{name: switched, expression: "request.operation == 'UPDATE'"}]`), bound(""), "match-condition-never", report.Warning, nil},
		{"a condition without a result", pods(`, matchConditions: [{name: typo, expression: "object.spec.nope == 'x'"}]`), bound(""), "match-condition-fails", report.Error,
			[]string{"typo", "refused", "kubectl edit validatingadmissionpolicy p"}},
		{"the same, and nothing binds it", pods(`, matchConditions: [{name: typo, expression: "object.spec.nope == 'x'"}]`), "", "policy-not-bound", report.Info, []string{"not looked at"}},
		{"the same, and Ignore", pods(`, failurePolicy: Ignore, matchConditions: [{name: typo, expression: "object.spec.nope == 'x'"}]`), bound(""), "match-condition-fails", report.Warning,
			[]string{"The policy is not asked for it"}},
		{"a condition without a result for most", pods(`, matchConditions: [{name: a, expression: "object.metadata.annotations['a'] == 'x'"}]`), bound(""), "match-condition-fails", report.Warning, []string{"refused"}},
		{"conditions that may hold", pods(`, matchConditions: [{name: a, expression: "variables.a == params.a && namespaceObject.metadata.name == object.metadata.namespace"}]`), bound(""), "", "", nil},
		{"a binding of nearly the name", strings.Replace(pods(""), "name: p", "name: v8-bindmissing", 1), `{metadata: {name: b}, spec: {policyName: v8-bindmising}}`, "policy-missing policy-not-bound",
			report.Warning, []string{"Did you mean v8-bindmissing", "kubectl edit validatingadmissionpolicybinding b"}},
		{"a binding of another name", pods(""), bound("") + `, {metadata: {name: c}, spec: {policyName: replica-limit}}`, "policy-missing", report.Warning, []string{"kubectl edit validatingadmissionpolicybinding c"}},
		{"a binding of no namespace", pods(""), bound(", matchResources: {namespaceSelector: {matchLabels: {tier: fron}}}"), "selector-no-namespace", report.Warning,
			[]string{"the policy is never asked", "tier=fron", "kubectl edit validatingadmissionpolicybinding b"}},
		{"a binding of labels that nothing has", pods(""), bound(", matchResources: {namespaceSelector: {matchLabels: {team: a}}}"), "selector-no-namespace", report.Info, []string{"there is none"}},
		{"a kind of parameters that is not installed", pods(", paramKind: {apiVersion: gone.example/v1, kind: Limit}"), bound(""), "policy-param-kind", report.Error, []string{"gone.example/v1 Limit", "are refused"}},
		{"the same, and Ignore", pods(", failurePolicy: Ignore, paramKind: {apiVersion: gone.example/v1, kind: Limit}"), bound(""), "policy-param-kind", report.Warning, []string{"without effect"}},
		{"parameters", pods(configMaps), bound(fmt.Sprintf(ref, "limits", "Deny")), "", "", nil},
		{"parameters that are missing", pods(configMaps), bound(fmt.Sprintf(ref, "gone", "Deny")), "policy-param-missing", report.Error, []string{"ConfigMap default/gone", "are refused"}},
		{"the same, and Allow", pods(configMaps), bound(fmt.Sprintf(ref, "gone", "Allow")), "policy-param-missing", report.Warning, []string{"without effect"}},
		{"parameters by labels", pods(configMaps), bound(", paramRef: {namespace: default, selector: {matchLabels: {a: b}}}"), "", "", nil},
		{"parameters by other labels", pods(configMaps), bound(", paramRef: {namespace: default, selector: {matchLabels: {a: c}}, parameterNotFoundAction: Deny}"), "policy-param-missing", report.Error, []string{"a=c"}},
		{"parameters of each namespace", pods(configMaps), bound(", paramRef: {name: limits}"), "", "", nil},
		{"parameters that may not be read", pods(configMaps), bound(fmt.Sprintf(ref, "secret", "Deny")), "not-readable", report.Unknown, []string{"the parameters of the ValidatingAdmissionPolicyBinding b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := policiesOf(t, c.policies, c.bindings).problems(t.Context(), f)
			expectOne(t, found, c.want, c.says...)
			if len(found) > 0 && found[0].Severity != c.severity {
				t.Errorf("%+v", found[0])
			}
		})
	}
}
