package placement

import (
	"strings"
	"testing"

	"usher.dev/usher/test/configtest"
)

// TestNodeSelectorProblems: every problem of the section is reported, with its path and the remedy.
func TestNodeSelectorProblems(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"labels", `{clusterDefault: {"a b": x}, allowed: {shop: {pool: "a b"}, Shop: {}}}`,
			[]string{`nodeSelector.clusterDefault[a b]: Invalid value: "a b"`, `nodeSelector.allowed[shop][pool]: Invalid value: "a b"`,
				`nodeSelector.allowed[Shop]: Invalid value: "Shop"`, `nodeSelector.allowed[Shop]: Required value: without a label, all would be allowed`}},
		{"tolerations", `{tolerations: {clusterDefault: [{}, {key: "a b", operator: Lt}, {key: a, operator: Exists, value: b}],
			clusterAllowed: [{key: a, value: "b c", effect: Never, tolerationSeconds: 1}]}}`,
			[]string{`nodeSelector.tolerations.clusterDefault[0].key: Required value: only operator Exists goes without a key`,
				`nodeSelector.tolerations.clusterDefault[1].key`, `nodeSelector.tolerations.clusterDefault[1].operator: Unsupported value: "Lt": supported values: "Equal", "Exists"`,
				`nodeSelector.tolerations.clusterDefault[2].value: Forbidden: operator Exists tolerates every value`,
				`nodeSelector.tolerations.clusterAllowed[0].value`, `nodeSelector.tolerations.clusterAllowed[0].effect: Unsupported value: "Never"`,
				`nodeSelector.tolerations.clusterAllowed[0].tolerationSeconds: Forbidden: is for effect NoExecute`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			configtest.WantProblems(t, "nodeSelector: "+c.text, c.want, Section)
		})
	}
}

// TestNodeSelectorWarnings: a default that a namespace does not allow refuses all its pods.
func TestNodeSelectorWarnings(t *testing.T) {
	for text, want := range map[string]string{
		`{clusterDefault: {pool: a}, allowed: {shop: {pool: a, disk: ssd}}}`: "",
		`{clusterDefault: {pool: a}, allowed: {shop: {pool: b}}}`:            "nodeSelector.allowed[shop]: does not allow pool=a of clusterDefault",
		`{allowed: {shop: {pool: b}}}`:                                       "",
	} {
		policy := configtest.Parse(t, "nodeSelector: "+text, Section)
		if got := strings.Join(policy.Warnings(), "\n"); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
