package expression

import (
	"encoding/json"
	"strings"
	"testing"

	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

func TestRulesProblems(t *testing.T) {
	const match = `match: {apiGroups: [apps], resources: [deployments], operations: [CREATE]}`
	const holds = `validations: [{expression: "true"}]`
	cases := []struct {
		name, rules string
		want        []string // none: accepted
	}{
		{"accepted", `{name: a, ` + match + `, ` + holds + `}`, nil},
		{"no name", `{` + match + `, ` + holds + `}`, []string{`rules[0].name: Invalid value: "": must be a name of lower-case letters`}},
		{"the same name", `{name: a, ` + match + `, ` + holds + `}, {name: a, ` + match + `, ` + holds + `}`, []string{`rules[1].name: Duplicate value: "a"`}},
		{"no validation", `{name: a, ` + match + `}`, []string{`rules[0].validations: Required value: such as`}},
		{"no match", `{name: a, ` + holds + `}`, []string{`rules[0].match.apiGroups: Required value`, `rules[0].match.resources: Required value`, `rules[0].match.operations: Required value`}},
		{"an expression", `{name: a, ` + match + `, validations: [{expression: "object.a > x"}]}`,
			[]string{`rules[0].validations[0].expression: Invalid value: "object.a > x": line 1 column 12: undeclared reference to 'x'`}},
		{"a path", `{name: a, ` + match + `, validations: [{expression: "true", fieldPath: "spec..a"}]}`,
			[]string{`rules[0].validations[0].fieldPath: Invalid value: "spec..a": must be a path such as spec.replicas`}},
		{"a reason", `{name: a, ` + match + `, validations: [{expression: "true", reason: Conflict}]}`,
			[]string{`rules[0].validations[0].reason: Unsupported value: "Conflict": supported values: "Invalid", "Forbidden"`}},
		{"onError", `{name: a, onError: ignore, ` + match + `, ` + holds + `}`, []string{`rules[0].onError: Unsupported value: "ignore"`}},
		{"selectors", `{name: a, ` + holds + `, match: {apiGroups: [""], resources: [pods], operations: [CREATE], namespaceSelector: {matchLabels: {a: "b c"}}, objectSelector: {matchLabels: {"a b": c}}}}`,
			[]string{`rules[0].match.namespaceSelector.matchLabels`, `rules[0].match.objectSelector.matchLabels`}},
		{"an unknown field", `{name: a, ` + match + `, ` + holds + `, failurePolicy: Fail}`, []string{`rules[0].failurePolicy: Forbidden: unknown field`}},
		{"an unknown field of match", `{name: a, ` + holds + `, match: {apiGroups: [""], resource: [pods], operations: [CREATE]}}`, []string{`rules[0].match.resource: Forbidden: unknown field; did you mean resources?`}},
		{"everything", `{name: a, ` + holds + `, match: {apiGroups: ["*"], resources: ["*/*"], operations: ["*"]}}`, []string{`rules[0].match.resources[0]: Invalid value: "*/*": must not match`}},
		{"node status", `{name: a, ` + holds + `, match: {apiGroups: [""], resources: [nodes/status], operations: [UPDATE]}}`, []string{`must not match nodes/status: kubelets report by it`}},
		{"leases", `{name: a, ` + holds + `, match: {apiGroups: [coordination.k8s.io], resources: ["*"], operations: [UPDATE]}}`, []string{`must not match leases`}},
		{"token reviews", `{name: a, ` + holds + `, match: {apiGroups: ["*"], resources: [tokenreviews], operations: [CREATE]}}`, []string{`must not match tokenreviews`}},
		{"access reviews", `{name: a, ` + holds + `, match: {apiGroups: ["*"], resources: [subjectaccessreviews], operations: [CREATE]}}`, []string{`must not match subjectaccessreviews`}},
		{"webhook configurations", `{name: a, ` + holds + `, match: {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], operations: [CREATE]}}`,
			[]string{`the API server sends them to no webhook`}},
		{"many at once", `{name: A, match: {apiGroups: [apps], resources: [deployments], operations: [create]}, variables: [{name: v, expression: "1 +"}], validations: [{expression: "variables.v"}, {expression: "y"}]}`,
			[]string{`rules[0].name`, `rules[0].match.operations[0]`, `rules[0].variables[0].expression`, `rules[0].validations[0].expression`, `rules[0].validations[1].expression`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			policy, problems := config.Parse([]byte("rules: ["+c.rules+"]"), config.Schema{section})
			var texts []string
			for _, p := range problems {
				texts = append(texts, p.Error())
			}
			text := strings.Join(texts, "\n")
			if len(problems) < len(c.want) || len(c.want) == 0 && policy == nil {
				t.Errorf("%d problems: %s", len(problems), text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %s in\n%s", want, text)
				}
			}
		})
	}
}

// TestRulesBeyondLimits: an expression that the library refuses without a place is a problem of the policy, like others.
func TestRulesBeyondLimits(t *testing.T) {
	for name, limit := range beyondLimits() {
		policy, err := json.Marshal(map[string]any{"rules": []any{map[string]any{"name": "a",
			"match":       map[string]any{"apiGroups": []string{"apps"}, "resources": []string{"deployments"}, "operations": []string{"CREATE"}},
			"validations": []any{map[string]any{"expression": limit[0]}}}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := config.Parse(policy, config.Schema{section}); len(problems) != 1 || !strings.Contains(problems[0].Error(), limit[1]) {
			t.Errorf("%s: %.300q", name, problems)
		}
	}
}

// TestRulesWarnings: a rule for some versions of what another rule is for in more versions.
func TestRulesWarnings(t *testing.T) {
	rule := func(name, match string) string {
		return `{name: ` + name + `, match: {apiGroups: [apps], operations: [CREATE], ` + match + `}, validations: [{expression: "true"}]}`
	}
	const v1 = `resources: [deployments], apiVersions: [v1]`
	for _, c := range []struct{ name, rules, want string }{
		{"all versions beside one", rule("a", v1) + "," + rule("b", `resources: ["*"]`),
			"rules[0].match.apiVersions: rule a is for versions v1 only, but rule b makes the API server send version * unconverted"},
		{"another version", rule("a", v1) + "," + rule("b", `resources: [deployments], apiVersions: [v1, v2]`), "rule b makes the API server send version v2"},
		{"the same versions", rule("a", v1) + "," + rule("b", v1), ""},
		{"another resource", rule("a", v1) + "," + rule("b", `resources: [replicasets]`), ""},
		{"no resource", rule("a", `resources: [deployments, deployment]`), "rules[0].match.resources[1]: no request matches deployment: "},
		{"an expression of a new version", strings.Replace(rule("a", v1), `"true"`, `"object.a.orValue(true)"`, 1), "line 1 column 17: orValue of a value that is not optional has no result"},
		{"a function of a new version", strings.Replace(rule("a", v1), `"true"`, `"quantity('1').isInteger() && isSemver('1.0.0')"`, 1), "a ValidatingAdmissionPolicy with this needs Kubernetes 1."},
		{"all versions", rule("a", `resources: [deployments]`) + "," + rule("b", `resources: ["*", "*/scale"]`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := configtest.Parse(t, "rules: ["+c.rules+"]", section)
			if got := strings.Join(policy.Warnings(), "\n"); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
