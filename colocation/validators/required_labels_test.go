package validators

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// requestFor returns a request about objects written as JSON; an empty old means CREATE.
func requestFor(t testing.TB, namespace, object, old string) *admit.Request {
	t.Helper()
	req := &admit.Request{Namespace: namespace, Operation: "CREATE", Object: parsed(t, object)}
	if old != "" {
		req.Operation, req.OldObject = "UPDATE", parsed(t, old)
	}
	return req
}

// wantProblems compares problems with the text that each of them must contain.
func wantProblems(t *testing.T, about string, problems field.ErrorList, err error, wants ...string) {
	t.Helper()
	if err != nil || len(problems) != len(wants) {
		t.Errorf("%s: %v, %v; want %q", about, problems, err, wants)
		return
	}
	for i, want := range wants {
		if !strings.Contains(problems[i].Error(), want) {
			t.Errorf("%s: %v, want %q", about, problems[i], want)
		}
	}
}

const rulesMap = "koordinator-system/pod-enhanced-validator-config"

func someRules(rules ...api.LabelRule) LabelRules {
	return func() ([]api.LabelRule, error) { return rules, nil }
}

func rule(name string, required, whitelist []string) api.LabelRule {
	return api.LabelRule{Name: name, RequiredLabels: required, NamespaceWhitelist: whitelist}
}

func labelsOf(keys ...string) string {
	var pairs []string
	for _, key := range keys {
		pairs = append(pairs, fmt.Sprintf(`%q:"true"`, key))
	}
	return `{"metadata":{"labels":{` + strings.Join(pairs, ",") + `}}}`
}

// The table of the reference, and the improvements here.
func TestRequiredLabels(t *testing.T) {
	const quota, skip = "quota.scheduling.koordinator.sh/name", "pod.koordinator.sh/skip-enhanced-validation"
	quotaRule := rule("quota-label-required", []string{quota}, []string{"kube-system", "koordinator-system"})
	both := rule("ownership", []string{"product", "app"}, nil)
	bare := `{"metadata":{}}`
	cases := []struct {
		name      string
		rules     []api.LabelRule
		namespace string
		pod, old  string
		wants     []string
	}{
		{"no ConfigMap, not enabled, or no rules", nil, "apps", bare, "", nil},
		{"a rule that asks for nothing", []api.LabelRule{rule("idle", nil, nil)}, "apps", bare, "", nil},
		{"created with the label", []api.LabelRule{quotaRule}, "apps", labelsOf(quota), "", nil},
		{"created with the label empty", []api.LabelRule{quotaRule}, "apps", `{"metadata":{"labels":{"` + quota + `":""}}}`, "", nil},
		{"updated with the label", []api.LabelRule{quotaRule}, "apps", labelsOf(quota), labelsOf(quota), nil},
		{"created without", []api.LabelRule{quotaRule}, "apps", bare, "", []string{
			`metadata.labels[` + quota + `]: Required value: rule "quota-label-required" of ConfigMap ` + rulesMap +
				` requires labels that are missing: ` + quota + `; set them on the pod or in its template, or have namespace "apps" added`}},
		{"label removed", []api.LabelRule{quotaRule}, "apps", bare, labelsOf(quota), []string{`"quota-label-required"`}},
		{"kube-system", []api.LabelRule{quotaRule}, "kube-system", bare, "", nil},
		{"koordinator-system", []api.LabelRule{quotaRule}, "koordinator-system", bare, "", nil},
		{"a longer namespace", []api.LabelRule{quotaRule}, "kube-system-2", bare, "", []string{`"quota-label-required"`}},
		{"the request's namespace counts", []api.LabelRule{quotaRule}, "apps", `{"metadata":{"namespace":"kube-system"}}`, "",
			[]string{`"quota-label-required"`}},
		{"skip", []api.LabelRule{quotaRule}, "apps", labelsOf(skip), "", nil},
		{"skip, but not exactly true", []api.LabelRule{quotaRule}, "apps", `{"metadata":{"labels":{"` + skip + `":"True"}}}`, "",
			[]string{`"quota-label-required"`}},
		{"two labels, both there", []api.LabelRule{both}, "apps", labelsOf("product", "app"), "", nil},
		{"two labels, one missing", []api.LabelRule{both}, "apps", labelsOf("product"), "", []string{`metadata.labels[app]: Required value`}},
		{"two labels, both missing", []api.LabelRule{both}, "apps", bare, "", []string{
			`metadata.labels: Required value: rule "ownership" of ConfigMap ` + rulesMap + ` requires labels that are missing: product, app;`}},
		{"two rules, both kept", []api.LabelRule{quotaRule, both}, "apps", labelsOf(quota, "app", "product"), "", nil},
		{"two rules, the first broken", []api.LabelRule{quotaRule, both}, "apps", labelsOf("app", "product"), "", []string{`"quota-label-required"`}},
		{"two rules, both broken", []api.LabelRule{quotaRule, both}, "apps", bare, "", []string{`"quota-label-required"`, `"ownership"`}},
		{"rules without a name", []api.LabelRule{rule("", []string{"a"}, nil), rule("", []string{"b"}, nil)}, "apps", labelsOf("a"), "",
			[]string{`rule "number 2"`}},

		{"updated, never had it", []api.LabelRule{quotaRule}, "apps", labelsOf("other"), bare, nil},
		{"updated, one of two added", []api.LabelRule{both}, "apps", labelsOf("app"), bare, nil},
		{"updated, one of two swapped", []api.LabelRule{both}, "apps", labelsOf("app"), labelsOf("product"), []string{`missing: product`}},
		{"updated, exemption dropped", []api.LabelRule{both}, "apps", labelsOf("app"), labelsOf("app", skip), []string{`missing: product`}},
		{"updated, exemption kept", []api.LabelRule{both}, "apps", labelsOf(skip, "x"), labelsOf(skip), nil},
		{"created and deleted already", []api.LabelRule{both}, "apps", `{"metadata":{"deletionTimestamp":"2026-11-21T08:00:00Z"}}`, labelsOf("app"), nil},
	}
	for _, c := range cases {
		req := requestFor(t, c.namespace, c.pod, c.old)
		problems, err := requiredLabels(rulesMap, someRules(c.rules...)).Run(t.Context(), req, admit.AsPod(req.Object))
		wantProblems(t, c.name, problems, err, c.wants...)
		if req.Object.Edits() != 0 || req.Object.Err() != nil {
			t.Errorf("%s: the pod was edited, or misread: %v", c.name, req.Object.Err())
		}
	}
}

// The audit log records which user exempts a pod from a rule that it breaks, and nothing else.
func TestRequiredLabelsAudit(t *testing.T) {
	const skip = "pod.koordinator.sh/skip-enhanced-validation"
	rules := someRules(rule("first", []string{"a"}, nil), rule("kept", []string{"c"}, nil), rule("second", []string{"b"}, nil))
	const exempted = "label " + skip + " exempts the pod from the rules first, second"
	for pod, want := range map[[2]string]string{
		{labelsOf("c", skip), ""}:                      exempted,
		{labelsOf("a", "b", "c", skip), ""}:            "",
		{labelsOf("a", "b", "c"), ""}:                  "",
		{labelsOf("c", skip), labelsOf("c", skip)}:     "", // recorded on create
		{labelsOf("c", skip), labelsOf("c")}:           exempted,
		{labelsOf("c", skip), labelsOf("a", "b", "c")}: exempted,
	} {
		req := requestFor(t, "apps", pod[0], pod[1])
		problems, err := requiredLabels(rulesMap, rules).Run(t.Context(), req, admit.AsPod(req.Object))
		if got := req.AuditAnnotations()["required-labels.skipped"]; got != want || len(problems) > 0 || err != nil {
			t.Errorf("%v: audited %q, want %q; %v, %v", pod, got, want, problems, err)
		}
	}
}

// Rules that cannot be read are an internal error: no pod is allowed or refused because of it.
func TestRequiredLabelsNotReady(t *testing.T) {
	rules := func() ([]api.LabelRule, error) { return nil, fmt.Errorf("rules: %w", admit.ErrNotReady) }
	req := requestFor(t, "apps", `{}`, "")
	problems, err := requiredLabels(rulesMap, rules).Run(t.Context(), req, admit.AsPod(req.Object))
	if len(problems) > 0 || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("%v, %v", problems, err)
	}
}

func BenchmarkRequiredLabelsKept(b *testing.B) {
	rules := someRules(rule("a", []string{"app", "team"}, nil), rule("b", []string{"product"}, []string{"apps"}))
	req := requestFor(b, "apps", labelsOf("app", "team"), labelsOf("app"))
	benchmarkPod(b, requiredLabels(rulesMap, rules), req)
}

// benchmarkPod runs a check on a pod without problems.
func benchmarkPod(b *testing.B, v admit.Validator[admit.Pod], req *admit.Request) {
	b.Helper()
	b.ReportAllocs()
	pod := admit.AsPod(req.Object)
	for b.Loop() {
		if problems, err := v.Run(b.Context(), req, pod); len(problems) > 0 || err != nil {
			b.Fatal(problems, err)
		}
	}
}
