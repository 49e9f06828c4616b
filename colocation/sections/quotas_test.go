package sections

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

func TestQuotasProblems(t *testing.T) {
	for text, wants := range map[string][]string{
		`quotas: {}`:                                               nil,
		`quotas: {selection: [], reserved: {}}`:                    nil,
		`quotas: {reserved: {label: false, default: true}}`:        nil,
		`quotas: {selection: [{name: a, namespaceSelector: {}}]}`:  nil,
		`quotas: {administrators: {groups: ["system:masters"]}}`:   nil,
		`quotas: {administrators: {namespaces: [a], groups: [b]}}`: nil,
		`quotas: {selection: [{name: a, quotas: [q, koordinator-default-quota], trees: [t_1], namespaces: [ns], namespaceSelector: {matchLabels: {a: b}}},
		  {name: b, namespaces: [ns]}]}`: nil,

		`quotas: {selection: [{}]}`: {`quotas.selection[0].name: Required`, `quotas.selection[0].namespaces: Required`},
		`quotas: {selection: [{name: a, namespaces: [ns]}, {name: a, namespaces: [ns]}]}`: {`quotas.selection[1].name: Duplicate`},
		`quotas: {selection: [{name: a, quotas: [Q, ""], trees: ["", "a b"], namespaces: ["*", n_1]}]}`: {
			`quotas.selection[0].quotas[0]: Invalid value: "Q"`, `quotas.selection[0].quotas[1]: Invalid value: ""`,
			`quotas.selection[0].trees[0]: Invalid value: "": must not be empty`, `quotas.selection[0].trees[1]: Invalid value: "a b"`,
			`quotas.selection[0].namespaces[0]: Invalid value: "*": write namespaceSelector: {}`, `quotas.selection[0].namespaces[1]: Invalid value: "n_1"`},
		`quotas: {selection: [{name: a, namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}}]}`: {`quotas.selection[0].namespaceSelector`},
		`quotas: {reserved: {labels: false}}`: {`quotas.reserved.labels: Forbidden: unknown field`},
		`quotas: {reserved: {label: no way}}`: {`reserved.label`},
		`quotas: {administrators: {}}`:        {`quotas.administrators: Required value: namespaces or groups`},
		`quotas: {administrators: {namespaces: ["*"], groups: ["", " a", "a*", "a:b"]}}`: {
			`quotas.administrators.namespaces[0]: Invalid value: "*"`, `quotas.administrators.groups[0]: Invalid value: "": must be the exact name`,
			`quotas.administrators.groups[1]`, `quotas.administrators.groups[2]`},
		`quotas: {deviceClassMappings: [{name: example.com/gpus, deviceClassNames: [gpu, big-gpu]}, {name: nics, deviceClassNames: [nic]}]}`: nil,
		`quotas: {deviceClassMappings: [{name: a, deviceClassNames: [gpu]}, {name: a, deviceClassNames: [nic, gpu]}, {name: "b c", deviceClassNames: [A]}, {}]}`: {
			`quotas.deviceClassMappings[1].name: Duplicate`, `quotas.deviceClassMappings[1].deviceClassNames[1]: Duplicate`, `quotas.deviceClassMappings[2].name: Invalid`,
			`quotas.deviceClassMappings[2].deviceClassNames[0]: Invalid`, `quotas.deviceClassMappings[3].name`, `quotas.deviceClassMappings[3].deviceClassNames: Required`},
		manyMappings(100): nil,
		manyMappings(101): {`quotas.deviceClassMappings: Too many: 101: must have at most 100 items`},
	} {
		parsed, problems := config.Parse([]byte(text), config.Schema{BindingSection, NodeAmplificationSection, QuotasSection})
		if (parsed == nil) != (len(wants) > 0) || len(problems) < len(wants) {
			t.Errorf("%s: %v", text, problems)
		}
		for _, want := range wants {
			if !mentioned(problems, want) {
				t.Errorf("%s: no problem says %q: %v", text, want, problems)
			}
		}
	}
}

// manyMappings returns a policy with n mappings.
func manyMappings(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("{name: r%d, deviceClassNames: [c%[1]d]}", i))
	}
	return "quotas: {deviceClassMappings: [" + strings.Join(all, ", ") + "]}"
}

// compiled returns the policy of a section in YAML.
func compiled(t *testing.T, text string) *QuotaPolicy {
	t.Helper()
	parsed, problems := config.Parse([]byte("quotas: "+text), config.Schema{BindingSection, NodeAmplificationSection, QuotasSection})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return config.SectionOf[*Quotas](parsed).Compile()
}

func TestMayName(t *testing.T) {
	p := compiled(t, `{selection: [
	  {name: train, quotas: [ml-train], namespaces: [ml]},
	  {name: gold, quotas: [ml-test], trees: [gold], namespaceSelector: {matchLabels: {tier: gold}}},
	  {name: both, quotas: [shared], namespaces: [one], namespaceSelector: {matchLabels: {tier: gold}}},
	  {name: platform, namespaces: [platform]}, {name: open, quotas: [open], namespaceSelector: {}}]}`)
	gold := map[string]string{"tier": "gold"}
	for _, c := range []struct {
		quota, tree, namespace string
		labels                 map[string]string
		by                     string
		asked                  int
	}{
		{"ml-train", "", "ml", nil, "train", 0},
		{"ml-train", "", "web", gold, "", 0},
		{"ml-train", "gold", "ml", nil, "train", 0},
		{"ml-train", "gold", "web", gold, "gold", 1},
		{"ml-test", "", "web", gold, "gold", 1},
		{"ml-test", "silver", "web", gold, "gold", 1},
		{"other", "gold", "web", gold, "gold", 1},
		{"other", "gold", "web", map[string]string{"tier": "silver"}, "", 1},
		{"other", "", "web", gold, "", 0},
		{"shared", "", "one", nil, "both", 0},
		{"shared", "", "two", gold, "both", 1},
		{"shared", "", "two", nil, "", 1},
		{"anything", "", "platform", nil, "platform", 0},
		{"open", "", "anywhere", nil, "open", 0},
		{"gold", "", "anywhere", gold, "", 0},
	} {
		asked := 0
		by, may, err := p.MayName(c.quota, c.tree, c.namespace, func() (map[string]string, error) { asked++; return c.labels, nil })
		if by != c.by || may != (c.by != "") || err != nil || asked != c.asked {
			t.Errorf("%+v: %q, %v, %v, asked %d times", c, by, may, err, asked)
		}
	}
	failed := errors.New("not listed yet")
	if _, may, err := p.MayName("ml-test", "", "web", func() (map[string]string, error) { return nil, failed }); may || !errors.Is(err, failed) {
		t.Errorf("%v, %v", may, err)
	}
}

func TestQuotaPolicyDefaults(t *testing.T) {
	var none *Quotas
	for text, p := range map[string]*QuotaPolicy{"nil": none.Compile(), "{}": compiled(t, "{}"), "true": compiled(t, "{reserved: {label: true, default: null}}")} {
		if p.LimitsLabels() || p.LimitsReserved() || p.LimitsWriters() || !p.ReservedByLabel || !p.ReservedByDefault || !p.ReservedByMove {
			t.Errorf("%s: %+v", text, p)
		}
	}
	if p := compiled(t, `{reserved: {move: false}}`); !p.LimitsReserved() || p.ReservedByMove || !p.ReservedByLabel || !p.ReservedByDefault || p.LimitsLabels() {
		t.Errorf("%+v", p)
	}
}

func TestAdministers(t *testing.T) {
	p := compiled(t, `{administrators: {namespaces: [quota-system], groups: [quota-admins]}}`)
	for _, c := range []struct {
		namespace string
		groups    []string
		want      bool
	}{
		{"quota-system", nil, true}, {"team-a", nil, false}, {"team-a", []string{"system:authenticated", "quota-admin"}, false},
		{"team-a", []string{"system:authenticated", "quota-admins"}, true}, {"team-a", []string{"system:masters"}, true}, {"", nil, false},
	} {
		req := &admit.Request{Namespace: c.namespace, UserInfo: authenticationv1.UserInfo{Username: "quota-admins", Groups: c.groups}}
		if got := p.Administers(req); got != c.want {
			t.Errorf("%s, %v: %v", c.namespace, c.groups, got)
		}
	}
	if !compiled(t, "{}").Administers(&admit.Request{}) {
		t.Error("without administrators, every user may shape the tree")
	}
}

// TestQuotasReadNamespaces: a policy that selects namespaces by labels is refused where no namespace is known.
func TestQuotasReadNamespaces(t *testing.T) {
	for text, want := range map[string]int{
		`quotas: {selection: [{name: a, namespaceSelector: {matchLabels: {a: b}}}]}`: 1, `quotas: {selection: [{name: a, namespaceSelector: {}}]}`: 0,
	} {
		parsed, problems := config.Parse([]byte(text), config.Schema{BindingSection, NodeAmplificationSection, QuotasSection})
		if len(problems) > 0 || len(parsed.NamespaceReaders()) != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
