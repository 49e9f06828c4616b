package validators

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/views"
)

// forest is a cluster with some quotas, for the step quota-rules.
func forest(t *testing.T, stored ...string) QuotaQuestions {
	t.Helper()
	var quotas []*quota.Quota
	for _, object := range stored {
		q := views.AsElasticQuota(parsed(t, object)).Object()
		quotas = append(quotas, quota.Of(&q))
	}
	tree := quota.NewTree(quotas)
	return QuotaQuestions{
		Tree:    func(context.Context, string) (*quota.Tree, error) { return tree, nil },
		Pending: rules.NewPending(time.Now),
		Rules: rules.Rules{
			HasPods:           func(string) ([]string, int) { return nil, 0 },
			NamespaceDeleting: func(string) (bool, error) { return false, nil },
		},
	}
}

// quotaText returns a quota with labels given as "key=value ...", and more metadata and spec.
func quotaText(name, labels, metadata, spec string) string {
	var members []string
	for _, pair := range strings.Fields(labels) {
		key, value, _ := strings.Cut(pair, "=")
		members = append(members, fmt.Sprintf(`"quota.scheduling.koordinator.sh/%s":%q`, key, value))
	}
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"quotas","labels":{%s}%s},"spec":{%s}}`, name, strings.Join(members, ","), metadata, spec)
}

// quotaRequest is a request about a quota: CREATE without old, DELETE without object.
func quotaRequest(t *testing.T, object, old string) *admit.Request {
	t.Helper()
	req := &admit.Request{Namespace: "quotas", Operation: admissionv1.Create}
	if object != "" {
		req.Object = parsed(t, object)
	}
	if old != "" {
		req.Operation, req.OldObject = admissionv1.Update, parsed(t, old)
	}
	if object == "" {
		req.Operation = admissionv1.Delete
	}
	return req
}

// admitQuota runs the step in its chain and returns problems and warnings.
func admitQuota(t *testing.T, ask QuotaQuestions, req *admit.Request) (all []string) {
	t.Helper()
	chain := admit.Validate(views.AsElasticQuota, ElasticQuotas(ask))
	result, err := chain.Run(t.Context(), req, nil)
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	for _, problem := range result.Problems {
		all = append(all, problem.Error.Error())
	}
	for _, warning := range req.Warnings() {
		all = append(all, "warning: "+warning)
	}
	return all
}

func TestQuotaRules(t *testing.T) {
	const small, large = `"max":{"cpu":"10"},"min":{"cpu":"1"}`, `"max":{"cpu":"10"},"min":{"cpu":"11"}`
	parent := quotaText("p", "is-parent=true", "", `"max":{"cpu":"10"},"min":{"cpu":"10"}`)
	child := quotaText("q", "parent=p", "", small)
	for _, c := range []struct {
		about, object, old string
		wants              []string
	}{
		{"created", quotaText("r", "parent=p", "", small), "", nil},
		{"created with problems", quotaText("r", "parent=p", "", large), "", []string{`spec.min[cpu]: Invalid value: "11": is more than spec.max`, `spec.min[cpu]: Invalid value: "11": makes 12`}},
		{"created, unreadable", quotaText("r", "parent=p", "", `"max":{"cpu":"lots"}`), "", []string{`spec.max`}},
		{"a warning", quotaText("r", "parent=p", "", `"max":{"cpu":"11"}`), "", []string{`warning: spec.max[cpu]: 11 is more than the 10 of its parent p`}},
		{"updated", quotaText("q", "parent=p", "", `"max":{"cpu":"10"},"min":{"cpu":"10"}`), child, nil},
		{"updated with a problem", quotaText("q", "parent=p tree-id=x", "", small), child, []string{`was ""`}},
		{"written differently", quotaText("q", "parent=p", "", `"max":{"cpu":"10000m"},"min":{"cpu":1}`), child, nil},
		{"unreadable from before", quotaText("q", "parent=p x=y", `,"finalizers":[]`, `"max":{"cpu":"lots"}`), quotaText("q", "parent=p", "", `"max":{"cpu":"lots"}`), nil},
		{"unreadable, and fixed", child, quotaText("q", "parent=p", "", `"max":{"cpu":"lots"}`), nil},
		{"unreadable now", quotaText("q", "parent=p", "", `"max":{"cpu":"lots"}`), child, []string{`spec.max`}},
		{"the annotation of the scheduler does not parse", quotaText("q", "parent=p", `,"annotations":{"quota.scheduling.koordinator.sh/guaranteed":"{"}`, small), child, []string{`guaranteed]: Invalid value`}},
		{"deleted", "", child, nil},
		{"deleted, unreadable", "", quotaText("q", "parent=p", "", `"max":{"cpu":"lots"}`), nil},
		{"deleted with children", "", parent, []string{`metadata.name: Forbidden: p has children (q)`}},
		{"elsewhere by its metadata", strings.Replace(child, `"namespace":"quotas"`, `"namespace":"x"`, 1), "", nil}, // the request's namespace counts
	} {
		got := admitQuota(t, forest(t, parent, child), quotaRequest(t, c.object, c.old))
		if len(got) != len(c.wants) {
			t.Errorf("%s: %q, want %q", c.about, got, c.wants)
			continue
		}
		for i, want := range c.wants {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", c.about, got[i], want)
			}
		}
	}
}

// A rule is only checked when its input changes; otherwise the tree is not even read.
func TestQuotaRulesLooksAtWhatChanges(t *testing.T) {
	ask := forest(t)
	broken := errors.New("asked")
	ask.Tree = func(context.Context, string) (*quota.Tree, error) { return nil, broken }
	old := quotaText("q", "parent=p", `,"annotations":{"quota.scheduling.koordinator.sh/child-request":"{}"}`, `"max":{"cpu":"1"}`)
	for object, asked := range map[string]bool{
		old: false,
		strings.Replace(old, `child-request":"{}"`, `child-request":"{\"cpu\":\"1\"}","usher.dev/reservations":"x","quota.scheduling.koordinator.sh/runtime":"{}"`, 1):                false,
		strings.Replace(old, `"spec"`, `"status":{"used":{"cpu":"lots"}},"spec"`, 1):                                                                                                  false,
		strings.Replace(old, `"labels":{`, `"finalizers":["a/b"],"deletionTimestamp":"2026-11-21T12:00:00Z","labels":{"quota.scheduling.koordinator.sh/allow-lent-resource":"x",`, 1): false,
		strings.Replace(old, `"cpu":"1"`, `"cpu":"2"`, 1): true,
	} {
		if got := admitQuota(t, ask, quotaRequest(t, object, old)); (len(got) > 0) != asked {
			t.Errorf("%s: %q", object, got)
		}
	}
	for _, key := range quotaLabels {
		bare := strings.Replace(old, api.LabelQuotaParent, "a", 1)
		if got := admitQuota(t, ask, quotaRequest(t, strings.Replace(bare, `"labels":{`, fmt.Sprintf(`"labels":{%q:"x",`, key), 1), bare)); len(got) != 1 {
			t.Errorf("%s: %q", key, got)
		}
	}
	for _, key := range quotaAnnotations {
		if got := admitQuota(t, ask, quotaRequest(t, strings.Replace(old, `"annotations":{"`, fmt.Sprintf(`"annotations":{%q:"{}","`, key), 1), old)); len(got) != 1 {
			t.Errorf("%s: %q", key, got)
		}
	}
	req := quotaRequest(t, quotaText("q", "", "", ""), "")
	if req.SubResource = "status"; len(admitQuota(t, ask, req)) > 0 {
		t.Error("a subresource is looked at")
	}
}

// A dry run, and a caller that has gone, leave nothing behind.
func TestQuotaRulesRemembers(t *testing.T) {
	object, other := quotaText("q", "", "", ""), strings.Replace(quotaText("q", "", "", ""), "quotas", "elsewhere", 1)
	ask := forest(t)
	second := func() []string {
		req := quotaRequest(t, other, "")
		req.Namespace, req.DryRun = "elsewhere", true
		return admitQuota(t, ask, req)
	}
	dry := quotaRequest(t, object, "")
	dry.DryRun = true
	if got := append(admitQuota(t, ask, dry), second()...); len(got) > 0 {
		t.Errorf("a dry run is remembered: %q", got)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	req := quotaRequest(t, object, "")
	if _, err := quotaRules(ask).Commit(gone, req, views.AsElasticQuota(req.Object)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := second(); len(got) > 0 {
		t.Errorf("a caller that has gone is remembered: %q", got)
	}
	unreadable := quotaRequest(t, quotaText("q", "", "", `"max":{"cpu":"lots"}`), "")
	if got := admitQuota(t, ask, unreadable); len(got) != 1 {
		t.Error(got)
	}
	if got := second(); len(got) > 0 {
		t.Errorf("an unreadable one is remembered: %q", got)
	}
	if got := admitQuota(t, ask, quotaRequest(t, object, "")); len(got) > 0 {
		t.Error(got)
	}
	if got := admitQuota(t, ask, quotaRequest(t, object, "")); len(got) > 0 {
		t.Errorf("the same once more: %q", got)
	}
	if got := second(); len(got) != 1 || !strings.Contains(got[0], "q exists in namespace quotas") {
		t.Errorf("the first is forgotten: %q", got)
	}
}

// An internal error is an error, never a refusal.
func TestQuotaRulesNotReady(t *testing.T) {
	ask := forest(t, quotaText("p", "is-parent=true", "", ""), quotaText("q", "parent=p", "", ""))
	ask.Rules.NamespaceDeleting = func(string) (bool, error) { return false, admit.ErrNotReady }
	req := quotaRequest(t, "", quotaText("p", "is-parent=true", "", ""))
	if _, err := quotaRules(ask).Run(t.Context(), req, views.AsElasticQuota(req.OldObject)); !errors.Is(err, admit.ErrNotReady) {
		t.Error(err)
	}
	ask.Tree = func(context.Context, string) (*quota.Tree, error) {
		return nil, fmt.Errorf("quotas: %w", admit.ErrNotReady)
	}
	for _, object := range []string{"", quotaText("z", "", "", "")} {
		old := ""
		if object == "" {
			old = quotaText("q", "parent=p", "", "")
		}
		req := quotaRequest(t, object, old)
		if problems, err := quotaRules(ask).Commit(t.Context(), req, views.AsElasticQuota(req.Subject())); !errors.Is(err, admit.ErrNotReady) || problems != nil {
			t.Error(problems, err)
		}
	}
}

// Changes of a quota that is involved in a flaw get a warning.
func TestQuotaRulesWarnsOfFlaws(t *testing.T) {
	ask := forest(t, quotaText("q", "parent=lost", "", ""))
	got := admitQuota(t, ask, quotaRequest(t, quotaText("q", "parent=lost is-root=true", "", ""), quotaText("q", "parent=lost", "", "")))
	if len(got) != 1 || !strings.Contains(got[0], "warning: elastic quota q: its parent lost does not exist") {
		t.Error(got)
	}
	got = admitQuota(t, ask, quotaRequest(t, quotaText("q", "", "", ""), quotaText("q", "parent=lost", "", "")))
	if len(got) > 0 {
		t.Errorf("a change that fixes it: %q", got)
	}
}

// A quota to which pods were admitted before its deletion was announced, and after the rules looked, is not deleted.
func TestDeletionAndPods(t *testing.T) {
	parent, stored, pods := quotaText("p", "", `,"resourceVersion":"6"`, ""), quotaText("q", "parent=p", `,"resourceVersion":"7"`, ""), 0
	ask := forest(t, parent, stored)
	ask.Rules.HasPods = func(name string) ([]string, int) { return nil, map[string]int{"q": pods}[name] }
	ask.Announce = func(context.Context, rules.Change, string) error { pods = 1; return nil }
	if problems := admitQuota(t, ask, quotaRequest(t, "", stored)); len(problems) != 1 || !strings.Contains(problems[0], "q has 1 pod") {
		t.Errorf("%q", problems)
	}
	if problems := admitQuota(t, ask, quotaRequest(t, "", parent)); len(problems) != 1 || !strings.Contains(problems[0], "children") {
		t.Errorf("the refused deletion counts: %q", problems)
	}
}

// An admitted change is announced before it is stored, with the version that it replaces; a refused one and a dry run are
// not. A change that cannot be announced is not admitted.
func TestQuotaRulesAnnounces(t *testing.T) {
	stored := quotaText("q", "", `,"resourceVersion":"7"`, `"max":{"cpu":"4"}`)
	lower := quotaText("q", "", `,"resourceVersion":"7"`, `"max":{"cpu":"3"}`)
	for _, c := range []struct {
		name, object, old, want string
		dry                     bool
		fails                   error
	}{
		{"an update", lower, stored, "q 4 -> q 3 from 7", false, nil},
		{"a new quota", lower, "", " -> q 3 from ", false, nil},
		{"a deletion", "", stored, "q 4 ->  from 7", false, nil},
		{"a refused change", quotaText("q", "parent=nowhere", "", ""), stored, "", false, nil},
		{"a dry run", lower, stored, "", true, nil},
		{"a change that cannot be announced", lower, stored, "q 4 -> q 3 from 7", false, admit.ErrNotReady},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask, got := forest(t), ""
			if c.old != "" {
				ask = forest(t, c.old)
			}
			ask.Announce = func(_ context.Context, change rules.Change, from string) error {
				in := func(q *quota.Quota) string {
					if q == nil {
						return ""
					}
					return q.Name + " " + q.Max.Cpu().String()
				}
				got = in(change.Old) + " -> " + in(change.New) + " from " + from
				return c.fails
			}
			req := quotaRequest(t, c.object, c.old)
			req.DryRun = c.dry
			problems := admitQuota(t, ask, req)
			if got != c.want || (len(problems) > 0) != (c.fails != nil || strings.Contains(c.name, "refused")) {
				t.Errorf("announced %q, want %q; problems %q", got, c.want, problems)
			}
		})
	}
}
