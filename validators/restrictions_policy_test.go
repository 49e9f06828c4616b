package validators

import (
	"strings"
	"testing"

	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

// TestRestrictions: every problem of the section has its path.
func TestRestrictions(t *testing.T) {
	const exec = `requests: [{apiGroups: [""], resources: [pods/exec], operations: [CONNECT]}]`
	for _, c := range []struct{ name, text, want string }{
		{"valid", `[{name: a, ` + exec + `, allow: {groups: [g], users: [u], serviceAccounts: [ns/a, ns/*]}}]`, ""},
		{"no name", `[{` + exec + `}]`, "restrictions[0].name: Required"},
		{"two of a name", `[{name: a, ` + exec + `}, {name: a, ` + exec + `}]`, "restrictions[1].name: Duplicate"},
		{"no requests", `[{name: a}]`, "restrictions[0].requests: Required"},
		{"bad request", `[{name: a, requests: [{apiGroups: [""], resources: [nodes/status], operations: [UPDATE]}]}]`, "restrictions[0].requests[0].resources[0]"},
		{"bad selector", `[{name: a, ` + exec + `, namespaceSelector: {matchLabels: {"a b": c}}}]`, "restrictions[0].namespaceSelector"},
		{"an empty list", `[{name: a, ` + exec + `, deny: {}}]`, "restrictions[0].deny: Required"},
		{"a pattern of users", `[{name: a, ` + exec + `, deny: {users: [a*]}}]`, "restrictions[0].deny.users[0]"},
		{"a pattern of groups", `[{name: a, ` + exec + `, allow: {groups: ["*"]}}]`, "restrictions[0].allow.groups[0]"},
		{"half an account", `[{name: a, ` + exec + `, allow: {serviceAccounts: [deployer]}}]`, "must be namespace/name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := config.Parse([]byte("restrictions: "+c.text), config.Schema{restrictionsSection})
			if c.want == "" && len(problems) > 0 || c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want)) {
				t.Errorf("got %v, want %s", problems, c.want)
			}
		})
	}
}

// TestRestrictionsRules: the rules are for what is restricted, and as little else as rules can say.
func TestRestrictionsRules(t *testing.T) {
	const selector = "namespaceSelector: {matchLabels: {env: production}}, "
	for _, c := range []struct{ name, text, want string }{
		{"as written", `{name: a, requests: [{apiGroups: [apps], resources: [deployments], operations: [DELETE]}]}`, "apps * deployments [DELETE] *"},
		{"a scope", `{name: a, requests: [{apiGroups: [a], apiVersions: [v1], resources: [b], operations: [CREATE], scope: Cluster}]}`, "a v1 b [CREATE] Cluster"},
		{"in namespaces", `{name: a, ` + selector + `requests: [{apiGroups: [apps], resources: [deployments], operations: ["*"]}]}`,
			"apps * deployments [CREATE UPDATE DELETE CONNECT] Namespaced"},
		{"namespaces", `{name: a, ` + selector + `requests: [{apiGroups: [""], resources: [namespaces, secrets], operations: [DELETE]}]}`,
			" * secrets [DELETE] Namespaced; * namespaces [DELETE] Cluster"},
		{"the same twice", `{name: a, requests: [{apiGroups: [a], resources: [b], operations: [CREATE]}, {apiGroups: [a], resources: [b], operations: [CREATE]}]}`,
			"a * b [CREATE] *"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := configtest.Parse(t, "restrictions: ["+c.text+"]", restrictionsSection)
			var got []string
			for _, r := range config.SectionOf[Restrictions](policy).Rules() {
				var operations []string
				for _, o := range r.Operations {
					operations = append(operations, string(o))
				}
				scope := string(r.Scope)
				if scope == "" {
					scope = "*"
				}
				got = append(got, strings.Join([]string{strings.Join(r.Groups, ","), strings.Join(r.Versions, ","), strings.Join(r.Resources, ","),
					"[" + strings.Join(operations, " ") + "]", scope}, " "))
			}
			if strings.TrimSpace(strings.Join(got, ";")) != strings.TrimSpace(c.want) {
				t.Errorf("got  %q\nwant %q", strings.Join(got, ";"), c.want)
			}
		})
	}
}
