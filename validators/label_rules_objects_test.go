package validators

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

// ofKind returns rules with a match for services and Namespaces in place of pods.
func ofKind(t *testing.T, rule string) LabelRules {
	t.Helper()
	policy := configtest.Parse(t, `labelRules: [{match: {resourceRules: [{apiGroups: [""], resources: [services], operations: [CREATE, UPDATE]},
  {apiGroups: [""], resources: [namespaces, nodes], operations: [CREATE, UPDATE], scope: Cluster}],
  excludeResourceRules: [{apiGroups: [""], resources: ["*"], resourceNames: [old], operations: [CREATE]}]`+rule+`}]`, labelRulesSection)
	return config.SectionOf[LabelRules](policy)
}

// TestObjectLabelRules: what holds for pods holds for objects of the kinds that a match names.
func TestObjectLabelRules(t *testing.T) {
	const team = `}, name: r, label: team, required: true, pattern: "[a-z]+", immutable: true`
	const prod = `, namespaceSelector: {matchLabels: {env: prod}}, objectSelector: {matchExpressions: [{key: free, operator: DoesNotExist}]}` + team
	for _, c := range []struct {
		name, rule, resource, object, namespace, old, now string // labels
		want                                              []string
	}{
		{"a service", team, "services", "web", "shop", "", `{}`, []string{"metadata.labels[team]: Required value: rule r: set it"}},
		{"allowed", team, "services", "web", "shop", "", `{"team":"a"}`, nil},
		{"stored", team, "services", "web", "shop", `{"team":"A"}`, `{"team":"A","x":"y"}`, nil},
		{"immutable", team, "services", "web", "shop", `{"team":"a"}`, `{"team":"b"}`, []string{"metadata.labels[team]: Forbidden"}},
		{"a Namespace", team, "namespaces", "shop", "shop", "", `{"team":"A"}`, []string{"metadata.labels[team]: Invalid"}},
		{"a node", team, "nodes", "n", "", "", `{}`, []string{"metadata.labels[team]: Required"}},
		{"another resource", team, "secrets", "web", "shop", "", `{}`, nil},
		{"an excluded name", team, "services", "old", "shop", "", `{}`, nil},
		{"an update of it is not excluded", team, "services", "old", "shop", `{"team":"a"}`, `{}`, []string{"Forbidden"}},
		{"the namespace is selected", prod, "services", "web", "prod", "", `{}`, []string{"Required"}},
		{"the namespace is not", prod, "services", "web", "shop", "", `{}`, nil},
		{"a Namespace by its own labels", prod, "namespaces", "x", "x", "", `{"env":"prod"}`, []string{"Required"}},
		{"a Namespace with others", prod, "namespaces", "x", "x", "", `{"env":"test"}`, nil},
		{"a Namespace that becomes selected", prod, "namespaces", "x", "x", `{"env":"test"}`, `{"env":"prod"}`, []string{"Required"}},
		{"a node has no namespace", prod, "nodes", "n", "", "", `{}`, []string{"Required"}},
		{"not selected by the object", prod, "nodes", "n", "", "", `{"free":""}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := admit.Questions{Namespace: func(name string) (admit.Namespace, bool, error) {
				return admit.Namespace{Labels: map[string]string{"env": name}}, true, nil
			}}
			req := request(t, around(`{"metadata":{"labels":`, c.old, `}}`), `{"metadata":{"labels":`+c.now+`}}`)
			req.Name, req.Namespace, req.Resource = c.object, c.namespace, metav1.GroupVersionResource{Version: "v1", Resource: c.resource}
			problems, err := objectLabelRules(ofKind(t, c.rule), ask).Run(t.Context(), req, admit.AsMeta(req.Object))
			wantProblems(t, problems, err, c.want)
		})
	}
	if rules := ofKind(t, team); !labelRules(rules, admit.Questions{}).Idle || !templateLabelRules(rules, nil, admit.Questions{}).Idle {
		t.Error("a rule with a match is for pods or for templates")
	}
	if !objectLabelRules(rulesOfTest, admit.Questions{}).Idle {
		t.Error("a rule without a match is for objects of any kind")
	}
}

// TestLabelRuleMatch: what a match cannot mean is refused, and what nothing matches is warned of.
func TestLabelRuleMatch(t *testing.T) {
	const list = `apiGroups: [""], resources: [services]`
	for _, c := range []struct {
		name, text, want, warning string
	}{
		{"short", `match: {` + list + `, operations: [CREATE]}`, "", ""},
		{"long", `match: {resourceRules: [{` + list + `, operations: [CREATE]}]}`, "", ""},
		{"the kind", `match: {apiGroups: [""], resources: [service], operations: [CREATE]}`, "", "labelRules[0].match.resources[0]: no request matches service: "},
		{"the kind, excluded", `match: {` + list + `, operations: [CREATE], excludeResourceRules: [{apiGroups: [""], resources: [service], operations: ["*"]}]}`, "",
			"labelRules[0].match.excludeResourceRules[0].resources[0]: no request matches service: "},
		{"both", `match: {` + list + `, operations: [CREATE], resourceRules: [{` + list + `, operations: [CREATE]}]}`, "labelRules[0].match.resourceRules: Forbidden", ""},
		{"nothing", `match: {}`, "labelRules[0].match.apiGroups: Required", ""},
		{"an exclusion of nothing", `match: {` + list + `, operations: [CREATE], excludeResourceRules: [{` + list + `}]}`, "match.excludeResourceRules[0].operations: Required", ""},
		{"a pattern of names", `match: {` + list + `, operations: [CREATE], resourceNames: [a*]}`, "labelRules[0].match.resourceNames[0]", ""},
		{"heartbeats", `match: {resourceRules: [{apiGroups: [""], resources: ["*/*"], operations: [CREATE]}], excludeResourceRules: [{apiGroups: [""], resources: [nodes/status], operations: ["*"]}]}`,
			"match.resourceRules[0].resources[0]: Invalid value", ""},
		{"DELETE", `match: {` + list + `, operations: [CREATE, DELETE]}`, `labelRules[0].match.operations[1]: Unsupported value: "DELETE"`, ""},
		{"a selector of pods", `match: {` + list + `, operations: [CREATE]}, podSelector: {}`, "labelRules[0].podSelector: Forbidden", ""},
		{"a selector beside it", `match: {` + list + `, operations: [CREATE]}, namespaceSelector: {}`, "labelRules[0].namespaceSelector: Forbidden", ""},
		{"workloads", `match: {` + list + `, operations: [CREATE]}, workloads: true`, "labelRules[0].workloads: Forbidden", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy, problems := config.Parse([]byte(`labelRules: [{name: a, label: team, required: true, `+c.text+`}]`), config.Schema{labelRulesSection})
			if c.want == "" && len(problems) > 0 || c.want != "" && !slices.ContainsFunc(problems, func(p error) bool { return strings.Contains(p.Error(), c.want) }) {
				t.Fatalf("got %v, want %s", problems, c.want)
			}
			if policy == nil {
				return
			}
			if got := strings.Join(policy.Warnings(), "\n"); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}
