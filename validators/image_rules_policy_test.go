package validators

import (
	"testing"

	"usher.dev/usher/test/configtest"
)

// TestImageRulesProblems: every problem of the section is reported at once, each with its path.
func TestImageRulesProblems(t *testing.T) {
	cases := []struct {
		name, text string
		want       []string
	}{
		{"everything is well", `{name: a, namespaceSelector: {matchLabels: {team: a}}, repositories: [registry.example.com/**], refusedTags: [latest, "*-dev"], digests: ["**"]}`, nil},
		{"nothing", `{}`, []string{`imageRules[0].name: Invalid value: ""`, `imageRules[0]: Required value: asks for nothing`}},
		{"selectors", `{name: a, digests: ["**"], namespaceSelector: {matchLabels: {"a b": c}}, podSelector: {matchExpressions: [{key: a, operator: Is}]}}`,
			[]string{`imageRules[0].namespaceSelector.matchLabels`, `imageRules[0].podSelector.matchExpressions[0].operator`}},
		{"patterns", `{name: a, repositories: [nginx, "a.b/**/c"], digests: [team/*], refusedTags: ["", "a:b"]}`,
			[]string{`imageRules[0].repositories[0]: Invalid value: "nginx": has no repository`, `imageRules[0].repositories[1]: Invalid value: "a.b/**/c"`,
				`imageRules[0].digests[0]: Invalid value: "team/*": does not begin with a registry`, `imageRules[0].refusedTags[0]: Invalid`, `imageRules[0].refusedTags[1]: Invalid`}},
		{"exceptions", `{name: a, digests: ["**"], refusedTagsExcept: [nginx]}`,
			[]string{`imageRules[0].refusedTagsExcept[0]: Invalid value: "nginx"`, `imageRules[0].refusedTags: Required value: required when refusedTagsExcept is set`}},
		{"fields that do not exist", `{name: a, repositries: [a.b/c], tags: [latest]}`,
			[]string{`imageRules[0].repositries: Forbidden: unknown field; did you mean repositories?`, `imageRules[0].tags: Forbidden: unknown field`, `asks for nothing`}},
		{"two rules of one name", `{name: a, digests: ["**"]}, {name: a, digests: ["**"]}`, []string{`imageRules[1].name: Duplicate value: "a"`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			configtest.WantProblems(t, "imageRules: ["+c.text+"]", c.want, imageRulesSection)
		})
	}
}
