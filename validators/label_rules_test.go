package validators

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/labelling"
)

// goldPods selects the pods with the label tier=gold.
var goldPods = config.Selection{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}

// rulesOfTest has a rule of each kind; all of them also apply to workloads.
var rulesOfTest = LabelRules{
	{Name: "team", Label: "team", Required: true, Pattern: "[a-z]+", Immutable: true, Workloads: true, Message: "ask #platform"},
	{Name: "tier", Label: "tier", Values: []string{"gold", "tin"}, Workloads: true},
	{Name: "cost", Annotation: "acme.com/cost", MaxLength: 3, Workloads: true},
	{Name: "gold needs a runbook", Selection: goldPods, Annotation: "runbook", Required: true, Workloads: true},
}

// ofNamespace answers all questions with one namespace.
func ofNamespace(labels map[string]string) admit.Questions {
	return admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{Labels: labels}, true, nil
	}}
}

// request returns a request about an object; old is empty for a creation.
func request(t *testing.T, old, now string) *admit.Request {
	t.Helper()
	req := &admit.Request{Operation: admissionv1.Create, Namespace: "shop", Object: parsed(t, now)}
	if old != "" {
		req.Operation, req.OldObject = admissionv1.Update, parsed(t, old)
	}
	return req
}

func parsed(t testing.TB, raw string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantProblems checks that there is one problem for each text, which it contains.
func wantProblems(t *testing.T, problems field.ErrorList, err error, want []string) {
	t.Helper()
	if err != nil || len(problems) != len(want) {
		t.Fatalf("%v, %v; want %d problems", problems, err, len(want))
	}
	for i, text := range want {
		if !strings.Contains(problems[i].Error(), text) {
			t.Errorf("%v, want %s", problems[i], text)
		}
	}
}

// ended are the metadata of an object that only its finalizers keep.
const ended = `"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0`

// labelCases are metadata of pods and of templates, before and after.
var labelCases = []struct {
	name, old, now string // old is empty for a creation
	want           []string
}{
	{"allowed", "", `{"labels":{"team":"a","tier":"tin"},"annotations":{"acme.com/cost":"12"}}`, nil},
	{"nothing", "", `{}`, []string{`metadata.labels[team]: Required value: rule team: set it to a value that matches [a-z]+; ask #platform`}},
	{"null", "", `{"labels":null,"annotations":null}`, []string{`labels[team]: Required`}},
	{"all problems at once", "", `{"labels":{"team":"A1","tier":"silver"},"annotations":{"acme.com/cost":"1234"}}`,
		[]string{`metadata.labels[team]: Invalid value: "A1": rule team: change it to a value that matches [a-z]+`,
			`metadata.labels[tier]: Invalid value: "silver": rule tier: change it to one of gold, tin`,
			`metadata.annotations[acme.com/cost]: Invalid value: "1234": rule cost: change it to at most 3 characters`}},
	{"the whole value matches", "", `{"labels":{"team":"ab\n"}}`, []string{`labels[team]`}},
	{"an empty value is a value", "", `{"labels":{"team":""}}`, []string{`labels[team]: Invalid value: ""`}},
	{"by pod selector", "", `{"labels":{"team":"a","tier":"gold"}}`, []string{`metadata.annotations[runbook]: Required value: rule gold needs a runbook: set it`}},

	{"unchanged violations stay", `{"labels":{"team":"A1","tier":"silver"}}`, `{"labels":{"team":"A1","tier":"silver","x":"y"}}`, nil},
	{"what is missing may stay missing", `{}`, `{"labels":{"x":"y"}}`, nil},
	{"what was missing may be added", `{}`, `{"labels":{"team":"a"}}`, nil},
	{"but not wrongly", `{}`, `{"labels":{"team":"A"}}`, []string{`labels[team]: Invalid`}},
	{"another violation", `{"labels":{"team":"a","tier":"silver"}}`, `{"labels":{"team":"a","tier":"brass"}}`, []string{`labels[tier]: Invalid value: "brass"`}},
	{"immutable: changed", `{"labels":{"team":"a"}}`, `{"labels":{"team":"b"}}`,
		[]string{`metadata.labels[team]: Forbidden: rule team: is immutable and was "a"; keep that value, or create another object; ask #platform`}},
	{"immutable: removed", `{"labels":{"team":"a"}}`, `{}`, []string{`labels[team]: Forbidden`}},
	{"immutable: a violation that is corrected", `{"labels":{"team":"A1"}}`, `{"labels":{"team":"a"}}`, []string{`labels[team]: Forbidden`}},
	{"a required one is removed", `{"labels":{"team":"a","tier":"gold"},"annotations":{"runbook":"x"}}`, `{"labels":{"team":"a","tier":"gold"}}`,
		[]string{`annotations[runbook]: Required`}},
	{"an optional one is removed", `{"labels":{"team":"a","tier":"silver"}}`, `{"labels":{"team":"a"}}`, nil},
	{"it is newly selected: what is missing was no stored violation", `{"labels":{"team":"a","tier":"tin"}}`, `{"labels":{"team":"a","tier":"gold"}}`,
		[]string{`annotations[runbook]: Required`}},
	{"it is no longer selected", `{"labels":{"team":"a","tier":"gold"},"annotations":{"runbook":"x"}}`, `{"labels":{"team":"a","tier":"tin"}}`, nil},
	{"it is being deleted", `{"labels":{"team":"a"},` + ended + `}`, `{` + ended + `}`, nil},
	{"it is being deleted, and still runs", `{"labels":{"team":"a"},"deletionTimestamp":"2099-01-01T00:00:00Z","deletionGracePeriodSeconds":31536000}`,
		`{"deletionTimestamp":"2099-01-01T00:00:00Z","deletionGracePeriodSeconds":31536000}`, []string{`labels[team]: Forbidden`}},
	{"a new one that pretends to be", "", `{` + ended + `}`, []string{`labels[team]: Required`}},
}

func TestLabelRules(t *testing.T) {
	step := labelRules(rulesOfTest, ofNamespace(nil))
	for _, c := range labelCases {
		t.Run(c.name, func(t *testing.T) {
			req := request(t, around(`{"metadata":`, c.old, `}`), `{"metadata":`+c.now+`}`)
			problems, err := step.Run(t.Context(), req, admit.AsPod(req.Object))
			wantProblems(t, problems, err, c.want)
		})
	}
}

// TestLongValues: a value that Kubernetes does not store, or that takes too many steps to match, is refused before it is matched, unless it is
// stored already. A step ends with its deadline.
func TestLongValues(t *testing.T) {
	slow := func(name string) LabelRule {
		return LabelRule{Name: name, Annotation: name, Pattern: `.*[a-z]{0,127}Z.*`}
	}
	rules := LabelRules{slow("a"), slow("b"), slow("c"), {Name: "short", Annotation: "short", Pattern: "[a-z]{1,200}"}, {Name: "label", Label: "label", Pattern: ".*"}}
	annotation := func(key string, size int) string { return fmt.Sprintf(`%q:%q`, key, strings.Repeat("a", size)) }
	for _, c := range []struct {
		name, metadata, old string
		want                []string
	}{
		{"not stored", `"annotations":{` + annotation("short", 256<<10+1) + `}`, "",
			[]string{"metadata.annotations[short]: Too long: rule short: has 262145 bytes, and Kubernetes stores at most 262144 of all annotations together; shorten it"}},
		{"a label that is not stored", `"labels":{` + annotation("label", 64) + `}`, "",
			[]string{"metadata.labels[label]: Too long: rule label: has 64 bytes, and Kubernetes stores at most 63 of a label; shorten it"}},
		{"too many steps", `"annotations":{` + annotation("a", 200<<10) + `}`, "",
			[]string{"metadata.annotations[a]: Too long: rule a: has 204800 bytes, too many to compare with the pattern .*[a-z]{0,127}Z.*; shorten it, or add maxLength to the rule"}},
		{"too many steps together", `"annotations":{` + annotation("a", 25<<10) + "," + annotation("b", 25<<10) + "," + annotation("c", 25<<10) + `}`, "",
			[]string{"annotations[a]: Invalid value", "annotations[b]: Invalid value", "annotations[c]: Too long: rule c: has 25600 bytes, too many to compare"}},
		{"longer than what can match", `"annotations":{` + annotation("short", 200<<10) + `}`, "", []string{"change it to a value that matches [a-z]{1,200}"}},
		{"not matched", `"annotations":{` + annotation("a", 20<<10) + `}`, "", []string{"change it to a value that matches"}},
		{"stored", `"annotations":{` + annotation("a", 300<<10) + `}`, `{"metadata":{"annotations":{` + annotation("a", 300<<10) + `}}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := request(t, c.old, `{"metadata":{`+c.metadata+`}}`)
			step := labelRules(rules, ofNamespace(nil))
			problems, err := step.Run(t.Context(), req, admit.AsPod(req.Object))
			wantProblems(t, problems, err, c.want)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := step.Run(ended, req, admit.AsPod(req.Object)); !errors.Is(err, context.Canceled) {
				t.Errorf("after the deadline: %v", err)
			}
		})
	}
}

// around returns a text in its frame; nothing for no text.
func around(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}

// TestLabelRulesByNamespace: a namespace that has not arrived is our failure.
func TestLabelRulesByNamespace(t *testing.T) {
	rule := LabelRule{Name: "r", Label: "team", Required: true}
	rule.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	for env, want := range map[string][]string{"prod": {"labels[team]"}, "test": nil} {
		req := request(t, "", `{}`)
		problems, err := labelRules(LabelRules{rule}, ofNamespace(map[string]string{"env": env})).Run(t.Context(), req, admit.AsPod(req.Object))
		wantProblems(t, problems, err, want)
	}
	missing := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{}, false, fmt.Errorf("namespace shop: %w", admit.ErrNotReady)
	}}
	req := request(t, "", `{}`)
	if _, err := labelRules(LabelRules{rule}, missing).Run(t.Context(), req, admit.AsPod(req.Object)); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("%v, want not ready", err)
	}
}

// workloadAt returns a workload of a kind around the metadata of its template.
func workloadAt(kind, metadata string) string {
	template := `{"template":{"metadata":` + metadata + `,"spec":{}}}`
	if kind == "CronJob" {
		template = `{"jobTemplate":{"spec":` + template + `}}`
	}
	return `{"kind":"` + kind + `","metadata":{},"spec":` + template + `}`
}

// TestTemplateLabelRules: the verdicts about templates are those about pods, at the template's path.
func TestTemplateLabelRules(t *testing.T) {
	step := templateLabelRules(rulesOfTest, nil, ofNamespace(nil))
	for _, kind := range []string{"Deployment", "CronJob"} {
		for _, c := range labelCases {
			if strings.Contains(c.now, "deletionTimestamp") {
				continue
			}
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				old := ""
				if c.old != "" {
					old = workloadAt(kind, c.old)
				}
				req := request(t, old, workloadAt(kind, c.now))
				problems, err := step.Run(t.Context(), req, admit.AsWorkload(req.Object))
				wantProblems(t, problems, err, c.want)
				at := map[string]string{"Deployment": "spec.template.metadata.", "CronJob": "spec.jobTemplate.spec.template.metadata."}[kind]
				for _, problem := range problems {
					if !strings.HasPrefix(problem.Field, at) {
						t.Errorf("%s, want a field of %s", problem.Field, at)
					}
				}
			})
		}
	}
	req := request(t, `{}`, `{"metadata":{`+ended+`},"spec":{"template":{"metadata":{"labels":{"team":"1"}}}}}`)
	problems, err := step.Run(t.Context(), req, admit.AsWorkload(req.Object))
	wantProblems(t, problems, err, nil)
}

// TestTemplateLabelRulesAfterDefaults: what label-defaults sets on the pods is judged as if it were in the template.
func TestTemplateLabelRulesAfterDefaults(t *testing.T) {
	defaults := labelling.Defaults{
		{Labels: []labelling.Value{{Key: "team", FromNamespaceLabel: "team"}}},
		{Selection: goldPods, Annotations: []labelling.Value{{Key: "runbook", Value: new("x")}}},
	}
	for _, c := range []struct {
		name, team, old, now string // team is the label of the namespace
		want                 []string
	}{
		{"filled", "a", "", `{}`, nil},
		{"filled with what the rule refuses", "A1", "", `{}`, []string{`spec.template.metadata.labels[team]: Invalid value: "A1"`}},
		{"filled by pod selector", "a", "", `{"labels":{"tier":"gold"}}`, nil},
		{"its own value wins", "a", "", `{"labels":{"team":"B"}}`, []string{`labels[team]: Invalid value: "B"`}},
		{"removed, and filled with the same", "a", `{"labels":{"team":"a"}}`, `{}`, nil},
		{"removed, and filled with another value", "b", `{"labels":{"team":"a"}}`, `{}`, []string{`labels[team]: Forbidden`}},
		{"of the wrong type", "a", "", `{"labels":{"team":1}}`, []string{"spec.template.metadata.labels.team: Invalid value: must be a string"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := ""
			if c.old != "" {
				old = workloadAt("Deployment", c.old)
			}
			req := request(t, old, workloadAt("Deployment", c.now))
			req.Kind = metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
			req.Resource = metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
			steps := []admit.Validator[admit.Workload]{templateLabelRules(rulesOfTest, defaults, ofNamespace(map[string]string{"team": c.team}))}
			result, err := admit.Validate(admit.AsWorkload, steps).Run(t.Context(), req, nil)
			var problems field.ErrorList
			for _, p := range result.Problems {
				problems = append(problems, p.Error)
			}
			wantProblems(t, problems, err, c.want)
		})
	}
	if len(appliedDefaults(config.PolicyOf(defaults, admit.Modes{"label-defaults": admit.DryRun}))) > 0 {
		t.Error("defaults in mode dryrun are not set on pods")
	}
}

// TestWarningOfRenewedPods: a template that breaks a rule may stay, but new pods of it will be refused.
func TestWarningOfRenewedPods(t *testing.T) {
	const stored = `{"kind":"Deployment","spec":{"replicas":1,"template":{"metadata":{"labels":{"app":"a"}},"spec":{"x":1}}}}`
	for name, c := range map[string]struct {
		now  string
		want int
	}{
		"scaled": {strings.Replace(stored, `"replicas":1`, `"replicas":2`, 1), 0},
		"rolled": {strings.Replace(stored, `"x":1`, `"x":2`, 1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, stored, c.now)
			problems, err := templateLabelRules(rulesOfTest, nil, ofNamespace(nil)).Run(t.Context(), req, admit.AsWorkload(req.Object))
			wantProblems(t, problems, err, nil)
			if got := req.Warnings(); len(got) != c.want || c.want > 0 && !strings.Contains(got[0], "spec.template.metadata.labels[team]") {
				t.Errorf("warnings %q, want %d", got, c.want)
			}
		})
	}
}

func BenchmarkLabelRules(b *testing.B) {
	for name, step := range map[string]admit.Validator[admit.Pod]{
		"no rule": labelRules(nil, ofNamespace(nil)), "two refuse": labelRules(rulesOfTest, ofNamespace(nil)),
		"all pass": labelRules(rulesOfTest[1:], ofNamespace(nil)),
	} {
		b.Run(name, func(b *testing.B) { benchmarkCheck(b, step) })
	}
}
