package validators

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/labelling"
	"usher.dev/usher/test/configtest"
)

// TestLabelSectionsProblems: every problem of the sections is reported, with its path and the remedy.
func TestLabelSectionsProblems(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing set", `labelDefaults: [{podSelector: {matchLabels: {app: web}}}]`,
			[]string{`labelDefaults[0]: Required value: write labels or annotations`}},
		{"keys and values", `labelDefaults: [{labels: [{key: "a b", value: x}, {key: ok, value: "a b"}, {key: ok, value: x}, {key: none}]}]`,
			[]string{`labelDefaults[0].labels[0].key: Invalid value: "a b"`, `labelDefaults[0].labels[1].value: Invalid value: "a b"`,
				`labelDefaults[0].labels[2].key: Duplicate value: "ok"`, `labelDefaults[0].labels[3].value: Required value`}},
		{"a label from an annotation", `labelDefaults: [{labels: [{key: a, fromNamespaceAnnotation: b}]}]`,
			[]string{`labelDefaults[0].labels[0].fromNamespaceAnnotation: Forbidden: an annotation may contain what a label must not; use fromNamespaceLabel`}},
		{"two sources", `labelDefaults: [{annotations: [{key: a, fromNamespaceAnnotation: b, fromNamespaceLabel: "c d"}]}]`,
			[]string{`labelDefaults[0].annotations[0].fromNamespaceAnnotation: Forbidden: fromNamespaceLabel is set, too`,
				`labelDefaults[0].annotations[0].fromNamespaceLabel: Invalid value: "c d"`}},
		{"annotation keys", `labelDefaults: [{annotations: [{key: Upper/Case, value: "any text"}, {key: "/", fromNamespaceAnnotation: "/"}]}]`,
			[]string{`labelDefaults[0].annotations[1].key`, `labelDefaults[0].annotations[1].fromNamespaceAnnotation`}},
		{"selector", `labelDefaults: [{namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}, labels: [{key: a, value: b}]}]`,
			[]string{`labelDefaults[0].namespaceSelector.matchExpressions[0].operator`}},
		{"order", `labelDefaults: [{podSelector: {matchLabels: {tier: web}}, labels: [{key: a, value: b}]},
			{podSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}, labels: [{key: tier, value: web}]}]`,
			[]string{`labelDefaults[0].podSelector: Invalid value: "tier": is a label that labelDefaults[1] sets; move this entry after that one`}},
		{"rule without anything", `labelRules: [{}]`,
			[]string{`labelRules[0].name: Required value`, `labelRules[0].label: Required value`, `labelRules[0]: Required value: write required, pattern`}},
		{"rules of one name", `labelRules: [{name: a, label: b, required: true}, {name: a, label: b, annotation: c, required: true}]`,
			[]string{`labelRules[1].name: Duplicate value: "a"`, `labelRules[1].annotation: Forbidden: label is set, too; write two rules`}},
		{"values", `labelRules: [{name: a, label: b, pattern: "[a-z]+", maxLength: 3, values: [abc, ABC, abcd, "a b"]}]`,
			[]string{`labelRules[0].values[1]: Invalid value: "ABC": is refused by pattern or maxLength`, `labelRules[0].values[2]`, `labelRules[0].values[3]: Invalid value: "a b": a valid label`}},
		{"pattern", `labelRules: [{name: a, label: b, pattern: "a)(b"}, {name: b, label: "b c", pattern: "(?=a)"}, {name: c, annotation: "b c", maxLength: -1}]`,
			[]string{`labelRules[0].pattern: Invalid value: "a)(b": unexpected ): ` + "`a)(b`" + `; write an expression in RE2 syntax`, `labelRules[1].pattern`, `labelRules[1].label`,
				`labelRules[2].annotation`, `labelRules[2].maxLength: Invalid value: -1`}},
		{"large patterns", `labelRules: [{name: a, label: b, pattern: "[a-z]{1,1000}x[a-z]{1,1000}x[a-z]{1,1000}"}, {name: b, label: b, pattern: "` + strings.Repeat("ab", 3000) + `"}]`,
			[]string{`labelRules[0].pattern: Invalid value: "[a-z]{1,1000}x[a-z]{1,1000}x[a-z]{1,1000}": it compiles to about 6002 instructions, and may to 4000; repeat less, and write maxLength`,
				`it has 6000 bytes, and may have 4096; write several rules, or values`}},
		{"many patterns", "labelRules:\n" + strings.Repeat(`- {name: a, annotation: a, pattern: "[a-z0-9 ]{1,1000}", maxLength: -1}`+"\n", 700),
			[]string{`labelRules: Forbidden: 700 patterns may take 102 MiB of memory when they are compiled, and all together at most 8 MiB; write maxLength`}},
		{"patterns that take long to read", "labelRules: [{name: a, label: b, pattern: ab}, {name: b, label: b, pattern: '(?i)[" + strings.Repeat("B-𞥂", 600) + "]'}]",
			[]string{`labelRules[1].pattern: Forbidden: the patterns up to this one take too long to read: those with many classes`}},
		{"an open quotation", `labelRules: [{name: a, label: b, pattern: '\Qa'}]`, []string{`labelRules[0].pattern: Invalid value: "\\Qa": missing closing )`}},
		{"many values for a pattern", `labelRules: [{name: a, annotation: b, pattern: ".*[a-z]{0,1000}Z.*", values: [` + strings.Repeat("a", 100<<10) + `]}]`,
			[]string{`labelRules[0].values[0]: Forbidden: it takes too long to compare the values with the pattern; leave out the pattern`}},
		{"too long for a label", `labelRules: [{name: a, label: b, maxLength: 64}]`, []string{`labelRules[0].maxLength: Invalid value: 64`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy, problems := config.Parse([]byte(c.text), config.Schema{labelling.Section, labelRulesSection})
			if policy != nil || len(problems) < len(c.want) {
				t.Errorf("%d problems, want %d: %v", len(problems), len(c.want), problems)
			}
			for _, want := range c.want {
				if !configtest.Mentioned(problems, want) {
					t.Errorf("no problem says %q: %v", want, problems)
				}
			}
		})
	}
}

func TestLabelSections(t *testing.T) {
	policy := configtest.Parse(t, `labelDefaults:
- labels: [{key: tier, value: ""}]
- podSelector: {matchLabels: {tier: ""}}
  labels: [{key: team, fromNamespaceLabel: team, value: none}]
  annotations: [{key: Acme.com/Owner, fromNamespaceAnnotation: Acme.com/Owner}]
labelRules: [{name: team, label: team, values: [a, b]}, {name: cost, annotation: cost, maxLength: 500, workloads: true}]`, labelling.Section, labelRulesSection)
	rules := config.SectionOf[LabelRules](policy)
	if templateLabelRules(rules, nil, admit.Questions{}).Idle || !templateLabelRules(rules[:1], nil, admit.Questions{}).Idle {
		t.Error("one of the rules is for workloads")
	}
}

// TestLabelWarnings: a default that a rule refuses is probably a mistake.
func TestLabelWarnings(t *testing.T) {
	policy := configtest.Parse(t, `labelDefaults: [{labels: [{key: tier, value: none}, {key: team, value: none}], annotations: [{key: tier, value: none}]}]
labelRules: [{name: tiers, label: tier, values: [gold]}, {name: teams, label: team, pattern: "[a-z]+"}]`, labelling.Section, labelRulesSection)
	const want = `labelDefaults[0].labels[0].value: "none" is refused by rule tiers of labelRules: pods for which both hold are refused unless they set tier themselves`
	if got := strings.Join(policy.Warnings(), "\n"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestValueRule(t *testing.T) {
	for _, c := range []struct {
		rule      LabelRule
		yes, nope string // separated by spaces
	}{
		{LabelRule{Pattern: "a|bc"}, "a bc", "ab abc xa cbc"},
		{LabelRule{Pattern: "(?m)^a$"}, "a", "a\nb b\na"},
		{LabelRule{Pattern: "(?i)[a-z]+"}, "A b", "1"},
		{LabelRule{Values: []string{"x", "y"}}, "x y", "z xy"},
		{LabelRule{MaxLength: 2}, "é öä", "abc"},
		{LabelRule{Pattern: "(é|aa){0,2}", MaxLength: 9}, "éé aaaa aaé", "ééé aaaaa"},
		{LabelRule{Pattern: "^$|b{0}"}, "", "a b"},
		{LabelRule{Required: true}, "a  b", ""},
	} {
		rule := c.rule.Compile()
		for _, value := range strings.Split(c.yes, " ") {
			if !rule.Accepts(value) {
				t.Errorf("%+v refuses %q", c.rule, value)
			}
		}
		for _, value := range strings.Split(c.nope, " ") {
			if value != "" && rule.Accepts(value) {
				t.Errorf("%+v accepts %q", c.rule, value)
			}
		}
	}
}

// FuzzLabelRulePattern: a pattern that Check accepts compiles in its anchored form, and matches what it matches as a whole.
func FuzzLabelRulePattern(f *testing.F) {
	for _, pattern := range []string{"a|b", "a)(b", "(?m)^a$", `\Qa`, `a\`, "[", "(?i)", "(?x)#", `\z|a`} {
		f.Add(pattern, "a")
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		rule := LabelRule{Name: "r", Annotation: "a", Required: true, Pattern: pattern}
		if len((LabelRules{rule}).check(field.NewPath("labelRules"))) > 0 || pattern == "" {
			return
		}
		longest := regexp.MustCompile(pattern)
		longest.Longest()
		whole := false
		for _, at := range longest.FindAllStringIndex(value, -1) {
			whole = whole || at[0] == 0 && at[1] == len(value)
		}
		if whole && !rule.Compile().Accepts(value) {
			t.Errorf("%q matches the whole of %q, and is refused", pattern, value)
		}
	})
}
