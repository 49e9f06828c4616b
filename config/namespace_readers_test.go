package config_test

import (
	"strings"
	"testing"

	"usher.dev/usher/test/configtest"
)

// TestNamespaceReaders: what a policy says about namespaces is found wherever it stands.
func TestNamespaceReaders(t *testing.T) {
	const rule = `rules: [{name: a, match: {apiGroups: [""], resources: [pods], operations: [CREATE]`
	for _, c := range []struct{ name, text, want string }{
		{"nothing", `names: {denied: [rude]}`, ""},
		{"a selector", `restrictions: [{name: a, namespaceSelector: {matchLabels: {a: b}}, requests: [{apiGroups: [""], resources: [pods], operations: [CREATE]}]}]`,
			"restrictions[0].namespaceSelector"},
		{"a selector of all", `requestsFromLimits: [{name: a, namespaceSelector: {}, cpuRequestToLimitPercent: 5}]`, ""},
		{"two", `requestsFromLimits: [{name: a, cpuRequestToLimitPercent: 5}, {name: b, namespaceSelector: {matchLabels: {a: b}}, cpuRequestToLimitPercent: 5}]` +
			"\nlabelDefaults: [{labels: [{key: team, fromNamespaceLabel: team}]}]", "labelDefaults[0].labels[0].fromNamespaceLabel requestsFromLimits[1].namespaceSelector"},
		{"node selectors", `nodeSelector: {}`, "nodeSelector"},
		{"a rule", rule + `, namespaceSelector: {matchLabels: {a: b}}}, validations: [{expression: "true"}]}]`, "rules[0].match.namespaceSelector"},
		{"an expression", rule + `}, validations: [{expression: "namespaceObject.metadata.name != 'a'"}]}]`, "rules[0].validations[0].expression"},
		{"another expression", rule + `}, validations: [{expression: "object.metadata.name != 'a'"}]}]`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := configtest.Parse(t, c.text, schema()...)
			if got := strings.Join(policy.NamespaceReaders(), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
