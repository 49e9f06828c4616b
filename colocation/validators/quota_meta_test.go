package validators

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// growing returns the tree of some quotas.
func growing(quotas ...*quota.Quota) QuotaTree {
	tree := quota.NewTree(quotas)
	return func() (*quota.Tree, error) { return tree, nil }
}

// quotaPod returns a pod with labels "name=sub-1 preemptible=false", each key without its prefix, and more metadata.
func quotaPod(labels, more string) string {
	var pairs []string
	for _, pair := range strings.Fields(labels) {
		key, value, _ := strings.Cut(pair, "=")
		pairs = append(pairs, fmt.Sprintf(`"quota.scheduling.koordinator.sh/%s":%q`, key, value))
	}
	return `{"metadata":{"labels":{` + strings.Join(pairs, ",") + `}` + more + `}}`
}

// The cases of the reference.
func TestQuotaMeta(t *testing.T) {
	quotas := growing(
		&quota.Quota{Name: "temp", IsParent: true, Namespaces: []string{""}}, // in this test also for pods without a label
		&quota.Quota{Name: "sub-1", Parent: "temp"}, &quota.Quota{Name: "sub-2", Parent: "temp"},
		&quota.Quota{Name: "empty", IsParent: true}, &quota.Quota{Name: "one", IsParent: true}, &quota.Quota{Name: "only", Parent: "one"},
		&quota.Quota{Name: "many", IsParent: true}, &quota.Quota{Name: "a", Parent: "many"}, &quota.Quota{Name: "b", Parent: "many"},
		&quota.Quota{Name: "c", Parent: "many"}, &quota.Quota{Name: "d", Parent: "many"},
	)
	pod := func(labels string) string { return quotaPod(labels, "") }
	deleting := func(labels string) string { return quotaPod(labels, `,"deletionTimestamp":"2026-01-01T00:00:00Z"`) }
	const at = `metadata.labels[quota.scheduling.koordinator.sh/name]: Forbidden: `
	inTemp := []string{at + `quota temp (via label) is a parent of quotas and takes no pods; set the label to one of its children sub-1, sub-2`}
	bound := []string{at + `quota temp (via namespace annotation) is a parent of quotas…sub-1`}
	unknown := []string{`label quota.scheduling.koordinator.sh/name: no elastic quota is named "quota2"; the pod counts against no quota`}
	preemptible := func(now, was string) []string {
		return []string{fmt.Sprintf(`metadata.labels[quota.scheduling.koordinator.sh/preemptible]: Invalid value: %q: was %q and cannot change while the pod exists; create a new pod, or set it back`, now, was)}
	}
	runVerdicts(t, quotaMeta(QuotaMembership{Tree: quotas}), []verdictCase{
		{"create in sub-1", "", pod("name=sub-1"), nil},
		{"sub-1 to sub-2", pod("name=sub-1"), pod("name=sub-2"), nil},
		{"create in temp", "", pod("name=temp"), inTemp},
		{"temp to sub-2", pod("name=temp"), pod("name=sub-2"), nil},
		{"sub-2 to temp", pod("name=sub-2"), pod("name=temp"), inTemp},
		{"create in temp by the namespace", "", pod(""), bound},
		{"sub-2 to the namespace's", pod("name=sub-2"), pod(""), bound},
		{"no children", "", pod("name=empty"), []string{at + "quota empty…a quota that is no parent: it has no children yet"}},
		{"one child", "", pod("name=one"), []string{at + "quota one…set the label to its child only"}},
		{"many children", "", pod("name=many"), []string{at + "quota many…one of its 4 children, such as a, b, c"}},
		{"default", "", pod("name=koordinator-default-quota"), nil},
		{"root", "", pod("name=koordinator-root-quota"), nil},

		{"unknown", "", pod("name=quota2"), unknown},
		{"update to unknown", pod("name=sub-1"), pod("name=quota2"), unknown},
		{"unknown before", pod("name=quota2"), pod("name=quota2"), nil},

		{"its quota became a parent", pod("name=temp"), quotaPod("name=temp", `,"finalizers":["a"]`), nil},
		{"its namespace's became one", pod(""), pod("other=label"), nil},
		{"another way to the same", pod("name=temp"), pod(""), nil},
		{"the same, by the label now", pod(""), pod("name=temp"), nil},
		{"deleting", deleting("name=sub-1"), deleting("name=temp"), nil},

		{"preemptible as it was", pod("name=sub-1 preemptible=false"), pod("name=sub-1 preemptible=false"), nil},
		{"preemptible new", "", pod("name=sub-1 preemptible=false"), nil},
		{"preemptible added", pod("name=sub-1"), pod("name=sub-1 preemptible=false"), preemptible("false", "")},
		{"preemptible added empty", pod("name=sub-1"), pod("name=sub-1 preemptible="), nil},
		{"preemptible removed", pod("name=sub-1 preemptible=false"), pod("name=sub-1"), preemptible("", "false")},
		{"preemptible changed", pod("preemptible=false"), pod("preemptible=true"), preemptible("true", "false")},
		{"preemptible changed, deleting", deleting("preemptible=false"), deleting("preemptible=true"), nil},
		{"both", pod("name=sub-1"), pod("name=temp preemptible=false"), append(preemptible("false", ""), inTemp...)},
	})
	runVerdicts(t, quotaMeta(QuotaMembership{Tree: quotas, Parents: true}), []verdictCase{
		{"gate: create in temp", "", pod("name=temp"), nil},
		{"gate: update to temp", pod("name=sub-2"), pod("name=temp"), nil},
		{"gate: update to unknown", pod("name=sub-2"), pod("name=quota2"), unknown},
		{"gate: preemptible", pod("name=sub-1"), pod("name=temp preemptible=false"), preemptible("false", "")},
	})
	runVerdicts(t, quotaMeta(QuotaMembership{Tree: quotas, LabelOnly: true}), []verdictCase{
		{"label only: the namespace's does not count", "", pod(""), nil},
		{"label only: an empty label", "", pod("name="), nil},
		{"label only: create in temp", "", pod("name=temp"), inTemp},
	})
	runVerdicts(t, quotaMeta(QuotaMembership{Tree: quotas, Evaluated: admit.Enforce}), []verdictCase{
		{"evaluated: unknown is the other step's", "", pod("name=quota2"), nil},
		{"evaluated, but not on update", pod("name=sub-2"), pod("name=quota2"), unknown},
	})
	runVerdicts(t, quotaMeta(QuotaMembership{Tree: quotas, Evaluated: admit.Enforce, EvaluatedOnUpdate: true}), []verdictCase{
		{"evaluated on update", pod("name=sub-2"), pod("name=quota2"), nil},
		{"create in temp all the same", "", pod("name=temp"), inTemp},
	})
	runVerdicts(t, quotaMeta(QuotaMembership{EvaluatedOnUpdate: true}), []verdictCase{
		{"no quotas", "", pod("name=temp"), nil},
		{"no quotas: preemptible", pod(""), pod("preemptible=false"), preemptible("false", "")},
	})
}

// TestQuotaMetaOverridden: where an override loosens evaluate-quota, which would refuse an unknown quota, this step says
// that the pod counts against none; where one tightens it, it does not.
func TestQuotaMetaOverridden(t *testing.T) {
	for _, c := range []struct {
		base, mode admit.Mode
		warned     bool
	}{
		{admit.Enforce, admit.Enforce, false}, {admit.Enforce, admit.Warn, true}, {admit.Enforce, admit.Off, true}, {admit.DryRun, admit.Enforce, false},
	} {
		t.Run(fmt.Sprintf("%s to %s", c.base, c.mode), func(t *testing.T) {
			checks := []admit.Validator[admit.Pod]{quotaMeta(QuotaMembership{Tree: growing(), Evaluated: c.base}), evaluateQuota(QuotaAdmission{})}
			o := admit.Override{Name: "o", Steps: []string{"evaluate-quota"}, Namespaces: []string{"ns"}, Mode: c.mode}
			chain := admit.Validate(admit.AsPod, checks).WithModes(admit.Modes{"evaluate-quota": c.base}).
				WithOverrides(override.Of([]admit.Override{o}, override.Context{Now: time.Now}))
			d, err := document.Parse([]byte(quotaPod("name=gone", "")))
			if err != nil {
				t.Fatal(err)
			}
			req := &admit.Request{Namespace: "ns", Operation: admissionv1.Create, Object: d}
			if _, err := chain.Run(t.Context(), req, nil); err != nil || len(req.Warnings()) > 0 != c.warned {
				t.Errorf("%v, warnings %q, want some: %v", err, req.Warnings(), c.warned)
			}
		})
	}
}

// The quota is determined as everywhere else.
func TestQuotaMetaNamespace(t *testing.T) {
	check := quotaMeta(QuotaMembership{Tree: growing(&quota.Quota{Name: "test-ns", Namespace: "test-ns", IsParent: true})})
	for namespace, want := range map[string]string{"test-ns": "quota test-ns (via namespace name)", "other": ""} {
		req := requestFor(t, namespace, `{"metadata":{"namespace":"ignored"}}`, "")
		problems, err := check.Run(t.Context(), req, admit.AsPod(req.Object))
		var wants []string
		if want != "" {
			wants = []string{want}
		}
		wantProblems(t, namespace, problems, err, wants...)
	}
}

// A request that changes nothing about quotas does not wait for them.
func TestQuotaMetaNotReady(t *testing.T) {
	late := func() (*quota.Tree, error) { return nil, fmt.Errorf("a cause: %w", admit.ErrNotReady) }
	for _, c := range []struct {
		old, pod string
		late     bool
	}{
		{"", quotaPod("", ""), true},
		{quotaPod("name=a", ""), quotaPod("name=b", ""), true},
		{quotaPod("name=a", ""), quotaPod("name=a", ""), false},
		{quotaPod("", ""), quotaPod("", ""), false},
	} {
		req := requestFor(t, "apps", c.pod, c.old)
		_, err := quotaMeta(QuotaMembership{Tree: late}).Run(t.Context(), req, admit.AsPod(req.Object))
		if errors.Is(err, admit.ErrNotReady) != c.late || !c.late && err != nil {
			t.Errorf("%s to %s: %v", c.old, c.pod, err)
		}
	}
}

func BenchmarkQuotaMeta(b *testing.B) {
	quotas := []*quota.Quota{{Name: "temp", IsParent: true}}
	for i := range 1000 {
		quotas = append(quotas, &quota.Quota{Name: fmt.Sprintf("sub-%d", i), Parent: "temp", Namespaces: []string{fmt.Sprintf("ns-%d", i)}})
	}
	check := quotaMeta(QuotaMembership{Tree: growing(quotas...)})
	b.Run("no label", func(b *testing.B) { benchCheck(b, check, benchPod("", "", nativeMembers)) })
	b.Run("a label", func(b *testing.B) {
		benchCheck(b, check, benchPod(fmt.Sprintf("%q:%q,", api.LabelQuotaName, "sub-500"), "", nativeMembers))
	})
}
