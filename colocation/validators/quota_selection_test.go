package validators

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
)

// choosing returns what the step depends on, for pods of namespace ns1, under a policy.
func choosing(policy sections.Quotas, labels map[string]string) QuotaSelection {
	tree := growing(
		&quota.Quota{Name: "own", Namespaces: []string{"ns1"}}, &quota.Quota{Name: "own-2", Namespace: "other"}, &quota.Quota{Name: "own-3", Namespace: "ns1"},
		&quota.Quota{Name: "gold-1", TreeID: "gold"}, &quota.Quota{Name: "theirs"},
	)
	return QuotaSelection{Policy: policy.Compile(),
		Tree: func(context.Context, string) (*quota.Tree, error) { return tree() },
		Core: admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) { return admit.Namespace{Labels: labels}, true, nil }}}
}

// inNS1 returns the step for pods of namespace ns1.
func inNS1(s QuotaSelection, m QuotaMembership) admit.Validator[admit.Pod] {
	check := quotaSelection(s, m)
	run := check.Run
	check.Run = func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
		req.Namespace = "ns1"
		return run(ctx, req, pod)
	}
	return check
}

func goldSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
}

const mayNotName = byLabel + `Forbidden: namespace ns1 may not name quota `

// TestQuotaSelection: with entries, the label of a pod names its namespace's own quota, or what an entry allows.
func TestQuotaSelection(t *testing.T) {
	pod := func(labels string) string { return quotaPod(labels, "") }
	policy := sections.Quotas{Selection: []sections.QuotaSelection{
		{Name: "mine", Quotas: []string{"own-2", "later", "koordinator-system-quota"}, Namespaces: []string{"ns1"}},
		{Name: "gold", Trees: []string{"gold"}, NamespaceSelector: goldSelector()}}}
	refused := func(name string) []string {
		return []string{mayNotName + name + `: quotas.selection of usher's policy does not let it; remove the label, or have the namespace added there`}
	}
	cases := []verdictCase{
		{"no label", "", pod(""), nil},
		{"an empty label", "", pod("name="), nil},
		{"the own quota", "", pod("name=own"), nil},
		{"in the namespace", "", pod("name=own-3"), nil},
		{"allowed by name", "", pod("name=own-2"), nil},
		{"another's", "", pod("name=theirs"), refused("theirs")},
		{"a tree of others", "", pod("name=gold-1"), refused("gold-1")},
		{"a reserved quota", "", pod("name=koordinator-default-quota"), refused("koordinator-default-quota")},
		{"a reserved quota that an entry names", "", pod("name=koordinator-system-quota"), nil},
		{"unknown", "", pod("name=new"), refused("new")},
		{"unknown, but allowed by name", "", pod("name=later"), nil},
		{"moved to another's", pod("name=own"), pod("name=theirs"), refused("theirs")},
		{"stays in another's", pod("name=theirs"), pod("name=theirs a=b"), nil},
		{"leaves another's", pod("name=theirs"), pod(""), nil},
		{"another way to the same", pod(""), pod("name=own"), nil},
		{"deleting", quotaPod("", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`), quotaPod("name=theirs", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`), nil},
	}
	runVerdicts(t, inNS1(choosing(policy, nil), QuotaMembership{}), cases)
	runVerdicts(t, inNS1(choosing(policy, map[string]string{"tier": "gold"}), QuotaMembership{}), []verdictCase{
		{"a tree, by the labels of the namespace", "", pod("name=gold-1"), nil},
		{"another tree", "", pod("name=theirs"), refused("theirs")},
	})
	runVerdicts(t, inNS1(choosing(policy, nil), QuotaMembership{Evaluated: admit.Enforce}), []verdictCase{
		{"evaluate-quota refuses it", "", pod("name=new"), nil},
		{"but not on an update", pod(""), pod("name=new"), refused("new")},
	})
	runVerdicts(t, inNS1(choosing(policy, nil), QuotaMembership{LabelOnly: true}), []verdictCase{
		{"label only: no quota is the namespace's own", "", pod("name=own"), refused("own")},
		{"label only: no label", "", pod(""), nil},
	})
}

// TestQuotaSelectionReserved: each way into a quota without limits can be closed.
func TestQuotaSelectionReserved(t *testing.T) {
	pod := func(labels string) string { return quotaPod(labels, "") }
	no := new(bool)
	label := []string{byLabel + `Forbidden: pods may not choose the reserved quota koordinator-default-quota, which limits nothing (quotas.reserved of usher's policy); name the quota of your team`}
	move := []string{byLabel + `Forbidden: the pod may not leave quota own for one that limits nothing…keep the label as it is`}
	runVerdicts(t, inNS1(choosing(sections.Quotas{Reserved: sections.ReservedQuotas{Label: no}}, nil), QuotaMembership{}), []verdictCase{
		{"label", "", pod("name=koordinator-default-quota"), label},
		{"label, by an update", pod("name=own"), pod("name=koordinator-default-quota"), label},
		{"another's", "", pod("name=theirs"), nil},
		{"no label", "", pod(""), nil},
	})
	runVerdicts(t, inNS1(choosing(sections.Quotas{Reserved: sections.ReservedQuotas{Move: no}}, nil), QuotaMembership{}), []verdictCase{
		{"created in one", "", pod("name=koordinator-default-quota"), nil},
		{"moved to one", pod("name=own"), pod("name=koordinator-default-quota"), move},
		{"moved to none", pod("name=own"), pod("name=new"), move},
		{"from one to another", pod("name=koordinator-system-quota"), pod("name=koordinator-default-quota"), nil},
		{"moved out of one", pod("name=koordinator-default-quota"), pod(""), nil},
	})
	nowhere := inNS1(choosing(sections.Quotas{Reserved: sections.ReservedQuotas{Default: no, Move: no}}, nil), QuotaMembership{LabelOnly: true})
	none := []string{byLabel + `Required value: no elastic quota is for pods of namespace ns1 with this label…(quotas.reserved of usher's policy); name the quota of your team`}
	runVerdicts(t, nowhere, []verdictCase{
		{"no label", "", pod(""), none},
		{"the label is removed", pod("name=own"), pod(""), none},
		{"a reserved one by label", "", pod("name=koordinator-default-quota"), nil},
		{"unknown", "", pod("name=new"), none},
		{"stays without", pod(""), pod("a=b"), nil},
		{"stays without, in other words", pod("name="), pod(""), nil},
	})
}

// TestQuotaSelectionIdle: a policy that says nothing about pods costs nothing.
func TestQuotaSelectionIdle(t *testing.T) {
	for about, policy := range map[string]*sections.QuotaPolicy{"nil": nil, "empty": (&sections.Quotas{}).Compile(),
		"about administrators": (&sections.Quotas{Administrators: &sections.QuotaAdministrators{Groups: []string{"a"}}}).Compile()} {
		if !quotaSelection(QuotaSelection{Policy: policy}, QuotaMembership{}).Idle {
			t.Errorf("%s: not idle", about)
		}
	}
}

// TestQuotaSelectionUnknown: what cannot be read is usher's own fault.
func TestQuotaSelectionUnknown(t *testing.T) {
	unknown := errors.New("not listed yet")
	s := choosing(sections.Quotas{Selection: []sections.QuotaSelection{{Name: "gold", NamespaceSelector: goldSelector()}}}, nil)
	req := requestFor(t, "ns1", quotaPod("name=theirs", ""), "")
	s.Core.Namespace = func(string) (admit.Namespace, bool, error) { return admit.Namespace{}, false, unknown }
	if _, err := quotaSelection(s, QuotaMembership{}).Run(t.Context(), req, admit.AsPod(req.Object)); !errors.Is(err, unknown) {
		t.Errorf("the namespace: %v", err)
	}
	awaited := ""
	s.Tree = func(_ context.Context, name string) (*quota.Tree, error) { awaited = name; return nil, unknown }
	if _, err := quotaSelection(s, QuotaMembership{}).Run(t.Context(), req, admit.AsPod(req.Object)); !errors.Is(err, unknown) || awaited != "theirs" {
		t.Errorf("the tree: waited for %q, %v", awaited, err)
	}
}
