package suite

import (
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

// ofSteps returns the sections modes and overrides of some steps.
func ofSteps() []config.Declared {
	steps := []string{"denied-names", "environment", "lifespan", "overcommit"}
	return []config.Declared{modesSection(steps, ""), overridesSection(steps, []string{"overcommit"}, []admit.Label{{Key: "in", Value: "yes"}})}
}

// overrideText returns a policy with one override: a valid one, to which more is added.
func overrideText(more string) string {
	return "overrides: [{name: a, steps: [denied-names], reason: why, " + more + "}]"
}

// TestOverrideProblems: every problem is reported with its path, and says what to write instead.
func TestOverrideProblems(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		want         []string
	}{
		{"nothing at all", `overrides: [{}]`, []string{
			"overrides[0].name: Required", "overrides[0].steps: Required", "overrides[0].mode: Required value: one of [enforce warn dryrun off]",
			"overrides[0].reason: Required"}},
		{"blanks for a reason", `overrides: [{name: a, steps: [lifespan], mode: warn, reason: " "}]`, []string{"overrides[0].reason: Required"}},
		{"a name of two words", `overrides: [{name: A b, steps: [lifespan], mode: warn, reason: x}]`, []string{`overrides[0].name: Invalid value: "A b"`}},
		{"the same name twice", `overrides: [{name: a, steps: [lifespan], mode: warn, reason: x}, {name: a, steps: [lifespan], mode: warn, reason: x}]`, []string{
			`overrides[1].name: Duplicate value: "a"`}},
		{"a misspelt step", `overrides: [{name: a, steps: [lifespn, nonsense], mode: warn, reason: x}]`, []string{
			`overrides[0].steps[0]: Invalid value: "lifespn": is not a step; did you mean lifespan?`, `overrides[0].steps[1]: Unsupported value: "nonsense"`}},
		{"a step twice", `overrides: [{name: a, steps: [lifespan, lifespan], mode: warn, reason: x}]`, []string{`overrides[0].steps[1]: Duplicate value: "lifespan"`}},
		{"a namespace that cannot be", overrideText("mode: off, namespaces: [A, 'x*', ok, ok]"), []string{
			`overrides[0].namespaces[0]: Invalid value: "A": can never be the name`, `overrides[0].namespaces[1]`, `overrides[0].namespaces[3]: Duplicate`}},
		{"both for namespaces", overrideText("mode: off, namespaces: [a], namespaceSelector: {matchLabels: {a: b}}"), []string{
			"overrides[0].namespaceSelector: Forbidden: there is also namespaces"}},
		{"a bad selector", overrideText("mode: off, namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}"), []string{
			`overrides[0].namespaceSelector.matchExpressions[0].operator`}},
		{"one of nothing", overrideText("mode: off, namespaceSelector: {matchExpressions: [{key: a, operator: In}]}"), []string{
			`overrides[0].namespaceSelector.matchExpressions[0].values`}},
		{"two values", overrideText("mode: enforce, selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [c]}]}"), []string{
			`overrides[0].selector: Invalid value: "a=b,a in (c)": can never match: what it asks of a is a contradiction`}},
		{"a value that is excluded", overrideText("mode: enforce, selector: {matchExpressions: [{key: a, operator: In, values: [c]}, {key: a, operator: NotIn, values: [c, d]}]}"), []string{
			"overrides[0].selector"}},
		{"there and not there", overrideText("mode: off, namespaceSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}"), []string{
			"overrides[0].namespaceSelector"}},
		{"users by pattern", overrideText(`mode: off, users: ["*", "", "system:serviceaccount:ns", x, x]`), []string{
			`overrides[0].users[0]: Invalid value: "*": users are exact names`, `overrides[0].users[1]: Invalid value: ""`,
			`overrides[0].users[2]: Invalid value: "system:serviceaccount:ns": can never match`, `overrides[0].users[4]: Duplicate`}},
		{"groups by pattern", overrideText(`mode: off, groups: ["dev*", ""]`), []string{"overrides[0].groups[0]", "overrides[0].groups[1]"}},
		{"an unknown mode", overrideText("mode: strict"), []string{`overrides[0].mode: Invalid value: "strict": must be one of [enforce warn dryrun off]`}},
		{"percents", `overrides: [{name: a, steps: [lifespan], enforcePercent: 101, reason: x}, {name: b, steps: [lifespan], enforcePercent: -1, reason: x},
			{name: c, steps: [lifespan], enforcePercent: "5", reason: x}, {name: d, steps: [lifespan], enforcePercent: 5, mode: enforce, reason: x}]`, []string{
			"overrides[0].enforcePercent: Invalid value: 101: must be from 0 to 100", "overrides[1].enforcePercent", "overrides[2].enforcePercent",
			`overrides[3].mode: Invalid value: "enforce": is the mode of the workloads beyond enforcePercent`}},
		{"dates", `overrides: [{name: a, steps: [lifespan], mode: warn, until: 31.1.2027, reason: x}, {name: b, steps: [lifespan], mode: warn, until: 2027-02-30, reason: x},
			{name: c, steps: [lifespan], mode: warn, until: "2027-01-31T18:00", reason: x}]`, []string{
			`overrides[0].until: Invalid value: "31.1.2027": must be the last day, such as 2027-01-31`, "overrides[1].until", "overrides[2].until"}},
		{"a step for nodes in namespaces", `overrides: [{name: a, steps: [overcommit, lifespan], mode: warn, namespaces: [b], reason: x}]`, []string{
			`overrides[0].steps[0]: Invalid value: "overcommit": is about objects outside of namespaces`}},
		{"an unknown field", overrideText("mode: warn, expires: 2027-01-31"), []string{"overrides[0].expires: Forbidden: unknown field"}},
		{"no list", "overrides: {a: b}", []string{"overrides: Invalid value"}},
		{"a ticket that is a number", overrideText("mode: warn, ticket: 17"), []string{`overrides[0].ticket: Invalid value: 17: must be a string, but is a number; quote it: "17"`}},
		{"a pod that exempts itself", overrideText("mode: off, selector: {matchLabels: {a: b}}"), []string{
			"overrides[0].selector: Forbidden: denied-names would be off for every object with these labels, and anyone can write labels; name the namespaces"}},
		{"by any user", overrideText("mode: off, groups: [dev, 'system:authenticated'], selector: {matchLabels: {a: b}}"), []string{
			"overrides[0].selector: Forbidden: denied-names would be off for every object with these labels, and system:authenticated sends the objects of all users"}},
		{"by a controller", overrideText("mode: off, users: ['system:serviceaccount:kube-system:replicaset-controller'], selector: {matchLabels: {a: b}}"), []string{
			"replicaset-controller sends the objects of all users; name the namespaces as well"}},
		{"in every namespace that has opted in", overrideText("mode: off, namespaceSelector: {matchLabels: {in: 'yes'}}, selector: {matchLabels: {a: b}}"), []string{
			"anyone can write labels, and namespaceSelector in=yes selects every namespace that usher is called for"}},
		{"with an empty namespaceSelector", overrideText("mode: off, namespaceSelector: {}, selector: {matchLabels: {a: b}}"), []string{"anyone can write labels"}},
		{"from a stricter one that follows", `{modes: {lifespan: dryrun}, overrides: [{name: a, steps: [lifespan], mode: dryrun, selector: {matchLabels: {a: b}}, reason: x},
			{name: b, steps: [lifespan], mode: enforce, namespaces: [prod], reason: x}]}`, []string{"overrides[0].selector: Forbidden: lifespan would be dryrun"}},
		{"from a rollout that follows", `{modes: {lifespan: off}, overrides: [{name: a, steps: [lifespan], mode: warn, selector: {matchLabels: {a: b}}, reason: x},
			{name: b, steps: [lifespan], enforcePercent: 1, reason: x}]}`, []string{"overrides[0].selector: Forbidden: lifespan would be warn"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			configtest.WantProblems(t, c.policy, c.want, ofSteps()...)
		})
	}
}

// TestOverridesAccepted: what is allowed, with the warnings about what is probably not meant.
func TestOverridesAccepted(t *testing.T) {
	for _, c := range []struct{ name, policy, warning string }{
		{"until a day", overrideText("mode: off, until: 2027-01-31"), ""},
		{"that has passed", overrideText("mode: off, until: 2001-01-31"), ""},
		{"without an end", overrideText("mode: off"), "overrides[0]: override a loosens denied-names for ever; give it an end with until"},
		{"a step for nodes by group", `overrides: [{name: a, steps: [overcommit], mode: warn, groups: [b], namespaceSelector: {}, until: 2027-01-31, reason: x}]`, ""},
		{"that only tightens", "modes: {denied-names: warn}\n" + overrideText("mode: enforce"), ""},
		{"tightens by labels alone", "modes: {denied-names: warn}\n" + overrideText("mode: enforce, selector: {matchLabels: {a: b}}"), ""},
		{"loosens by labels of a namespace's objects", overrideText("mode: off, until: 2027-01-31, namespaces: [a], selector: {matchLabels: {a: b}}"), ""},
		{"and by labels of namespaces", overrideText("mode: off, until: 2027-01-31, namespaceSelector: {matchLabels: {a: b}}, selector: {matchLabels: {a: b}}"), ""},
		{"and by groups", overrideText("mode: off, until: 2027-01-31, groups: [build], selector: {matchLabels: {a: b}}"), ""},
		{"by a controller", overrideText("mode: off, until: 2027-01-31, users: ['system:serviceaccount:kube-system:replicaset-controller']"),
			"loosens denied-names for all users: system:serviceaccount:kube-system:replicaset-controller sends what any of them asks for"},
		{"by a controller in a namespace", overrideText("mode: off, until: 2027-01-31, namespaces: [a], groups: ['system:serviceaccounts:kube-system']"), ""},
		{"an empty selector", overrideText("mode: off, until: 2027-01-31, selector: {}"), ""},
		{"a rollout", overrideText("enforcePercent: 10, until: 2027-01-31"), ""},
		{"of a step that is not enforced", "modes: {denied-names: warn}\n" + overrideText("enforcePercent: 10, until: 2027-01-31"),
			"overrides[0]: override a enforces denied-names for some workloads, but without it the mode is warn; leave the step out of modes"},
		{"shadowed", `overrides: [{name: a, steps: [lifespan, environment], mode: warn, until: 2027-01-31, reason: x},
			{name: b, steps: [lifespan], namespaces: [c], mode: off, until: 2027-01-31, reason: x}]`,
			"overrides[1]: override b is never used: override a before it matches everything that it matches; move it up"},
		{"not shadowed after the first ends", `overrides: [{name: a, steps: [lifespan], mode: warn, until: 2027-01-31, reason: x},
			{name: b, steps: [lifespan], mode: off, until: 2027-02-01, reason: x}]`, ""},
		{"nor in another namespace", `overrides: [{name: a, steps: [lifespan], namespaces: [a, b], mode: warn, until: 2027-01-31, reason: x},
			{name: b, steps: [lifespan], namespaces: [b, c], mode: off, until: 2027-01-31, reason: x}]`, ""},
		{"nor for another step", `overrides: [{name: a, steps: [lifespan], mode: warn, until: 2027-01-31, reason: x},
			{name: b, steps: [environment, lifespan], mode: off, until: 2027-01-31, reason: x}]`, ""},
		{"for fewer users", `overrides: [{name: a, steps: [lifespan], users: [u, v], mode: warn, until: 2027-01-31, reason: x},
			{name: b, steps: [lifespan], users: [v], mode: off, until: 2027-01-31, reason: x}]`, "overrides[1]: override b is never used"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := configtest.Parse(t, c.policy, ofSteps()...)
			if got := strings.Join(policy.Warnings(), "\n"); c.warning == "" && got != "" || !strings.Contains(got, c.warning) {
				t.Errorf("warned %q, want %q", got, c.warning)
			}
			if slices.Contains(policy.LeftOut(ofSteps()), "overrides") {
				t.Error("to have no overrides switches nothing off")
			}
		})
	}
}

// TestOverrideEnds: a day ends with its last second in UTC, and 14 days before there is a warning.
func TestOverrideEnds(t *testing.T) {
	day, moment := overrideText("mode: off, until: 2027-01-31, ticket: T-1"), overrideText("mode: off, until: '2027-01-31T20:00:00+02:00'")
	for _, c := range []struct{ name, policy, now, want string }{
		{"long before", day, "2027-01-17T23:59:59Z", ""},
		{"14 days before", day, "2027-01-18T00:00:00Z", "override a ends after 2027-01-31, in 14 days; then the other modes of denied-names hold: why (T-1)"},
		{"a day before", day, "2027-01-31T00:00:00Z", "override a ends after 2027-01-31, in 24 hours"},
		{"the last second", day, "2027-01-31T23:59:59Z", "override a ends after 2027-01-31, in 0 hours"},
		{"the first second after", day, "2027-02-01T00:00:00Z", "override a has ended, after 2027-01-31, and has no effect; remove it from the policy"},
		{"before a moment", moment, "2027-01-31T17:59:59Z", "override a ends after 2027-01-31T18:00:00Z, in 0 hours"},
		{"the moment", moment, "2027-01-31T18:00:00Z", "override a has ended, after 2027-01-31T18:00:00Z"},
		{"without an end", overrideText("mode: off"), "2027-01-31T18:00:00Z", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := configtest.Parse(t, c.policy, ofSteps()...)
			now, err := time.Parse(time.RFC3339, c.now)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(config.SectionOf[override.List](policy).Ending(now), "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
