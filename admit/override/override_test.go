package override

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// labeller sets a label, then returns err.
func labeller(name string, err error) admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{Name: name, Run: func(_ context.Context, _ *admit.Request, p *admit.Pod) error {
		p.SetLabel(name, "set")
		return err
	}}
}

var refusal = field.Forbidden(field.NewPath("spec", "x"), "not here")

func podRequest(t *testing.T) *admit.Request {
	t.Helper()
	return &admit.Request{Object: parse(t, `{"metadata":{"name":"p"}}`), Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: "p"}
}

func parse(t *testing.T, raw string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// asSelector compiles conditions on labels.
func asSelector(conditions []metav1.LabelSelectorRequirement) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: conditions})
	if err != nil {
		panic(err)
	}
	return selector
}

func selectorOf(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return selector
}

// quiet is an override that switches step one off.
func quiet(change func(*admit.Override)) admit.Override {
	o := admit.Override{Name: "quiet", Steps: []string{"one"}, Mode: admit.Off, Reason: "why"}
	change(&o)
	return o
}

// TestOverrides: which requests an override matches, one condition at a time and together.
func TestOverrides(t *testing.T) {
	day := time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)
	labelled := func(text string) map[string]string {
		set, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	pod := asked{op: admissionv1.Create, kind: "Pod", namespace: "shop", name: "p", user: "ann", groups: []string{"dev", "system:authenticated"},
		is: labelled("app=web"), now: day.Add(-time.Second), space: labelled("env=prod"), known: true}
	with := func(change func(*asked)) asked {
		q := pod
		change(&q)
		return q
	}
	all := func(*admit.Override) {}
	inShop := func(o *admit.Override) { o.Namespaces = []string{"bank", "shop"} }
	inProd := func(o *admit.Override) { o.NamespaceSelector = selectorOf("env=prod") }
	ofWeb := func(o *admit.Override) { o.Selector = selectorOf("app=web") }
	untilDay := func(o *admit.Override) { o.Until = day }
	byAnn := func(o *admit.Override) { o.Users = []string{"ann"} }
	byDev := func(o *admit.Override) { o.Groups = []string{"ops", "dev"} }
	tighten := func(o *admit.Override) { o.Mode = admit.Enforce; ofWeb(o) }
	update := func(was string) func(*asked) {
		return func(q *asked) { q.op, q.was = admissionv1.Update, labelled(was) }
	}
	for _, c := range []struct {
		name     string
		override func(*admit.Override)
		request  asked
		want     string // off, not, or wait
	}{
		{"no condition", all, pod, "off"},
		{"another step", func(o *admit.Override) { o.Steps = []string{"two"} }, pod, "not"},
		{"one of two steps", func(o *admit.Override) { o.Steps = []string{"two", "one"} }, pod, "off"},
		{"the last second", untilDay, pod, "off"},
		{"the end", untilDay, with(func(q *asked) { q.now = day }), "not"},
		{"the second after the end", untilDay, with(func(q *asked) { q.now = day.Add(time.Second) }), "not"},
		{"the end in another zone", untilDay, with(func(q *asked) { q.now = day.In(time.FixedZone("east", 7200)) }), "not"},
		{"the namespace", inShop, pod, "off"},
		{"another namespace", inShop, with(func(q *asked) { q.namespace = "shop2" }), "not"},
		{"no namespace", inShop, with(func(q *asked) { q.kind, q.namespace = "PriorityClass", "" }), "not"},
		{"a Namespace by its name", inShop, with(func(q *asked) { q.kind, q.namespace, q.name = "Namespace", "", "shop" }), "off"},
		{"another Namespace", inShop, with(func(q *asked) { q.kind, q.namespace, q.name = "Namespace", "", "shop2" }), "not"},
		{"labels of the namespace", inProd, pod, "off"},
		{"other labels of the namespace", inProd, with(func(q *asked) { q.space = labelled("env=test") }), "not"},
		{"labels of the pod instead", inProd, with(func(q *asked) { q.space, q.is = nil, labelled("env=prod") }), "not"},
		{"a namespace that is in no file", inProd, with(func(q *asked) { q.space, q.known = nil, false }), "not"},
		{"a namespace that has not arrived", inProd, with(func(q *asked) { q.absent = true }), "wait"},
		{"is not asked for by name", inShop, with(func(q *asked) { q.absent = true }), "off"},
		{"is not asked for another user", func(o *admit.Override) { inProd(o); o.Users = []string{"bob"} }, with(func(q *asked) { q.absent = true }), "not"},
		{"is not asked for other labels", func(o *admit.Override) { inProd(o); o.Selector = selectorOf("app=db") }, with(func(q *asked) { q.absent = true }), "not"},
		{"is not asked after the end", func(o *admit.Override) { inProd(o); o.Until = pod.now }, with(func(q *asked) { q.absent = true }), "not"},
		{"a node is in no namespace", inProd, with(func(q *asked) { q.kind, q.namespace, q.absent = "Node", "shop", true }), "not"},
		{"a Namespace by its stored labels", inProd, with(func(q *asked) {
			q.kind, q.op, q.is, q.was, q.absent = "Namespace", admissionv1.Update, labelled("env=test"), labelled("env=prod"), true
		}), "off"},
		{"a Namespace that gets the label", inProd, with(func(q *asked) {
			q.kind, q.op, q.is, q.was = "Namespace", admissionv1.Update, labelled("env=prod"), labelled("env=test")
		}), "not"},
		{"a Namespace that is new", inProd, with(func(q *asked) { q.kind, q.is = "Namespace", labelled("env=prod") }), "not"},
		{"the user", byAnn, pod, "off"},
		{"another user", byAnn, with(func(q *asked) { q.user = "ann2" }), "not"},
		{"no user", byAnn, with(func(q *asked) { q.user = "" }), "not"},
		{"a group", byDev, pod, "off"},
		{"no group", byDev, with(func(q *asked) { q.groups = nil }), "not"},
		{"a user in none of the groups", func(o *admit.Override) { byAnn(o); o.Groups = []string{"ops"} }, pod, "off"},
		{"another user in a group", func(o *admit.Override) { byDev(o); o.Users = []string{"bob"} }, pod, "off"},
		{"labels", ofWeb, pod, "off"},
		{"other labels", ofWeb, with(func(q *asked) { q.is = labelled("app=db") }), "not"},
		{"no labels", ofWeb, with(func(q *asked) { q.is = map[string]string{} }), "not"},
		{"the deleted object", ofWeb, with(func(q *asked) { q.op, q.was, q.is = admissionv1.Delete, q.is, nil }), "off"},
		{"an update of what matches", ofWeb, with(update("app=web")), "off"},
		{"an update that gets the label", ofWeb, with(update("app=db")), "not"},
		{"an update that loses the label", ofWeb, with(func(q *asked) { update("app=web")(q); q.is = labelled("app=db") }), "not"},
		{"an update that gets a stricter mode", tighten, with(update("app=db")), "enforce"},
		{"an update that flees from it", tighten, with(func(q *asked) { update("app=web")(q); q.is = labelled("app=db") }), "enforce"},
		{"all conditions", func(o *admit.Override) { untilDay(o); inShop(o); ofWeb(o); byAnn(o) }, pod, "off"},
		{"all but one", func(o *admit.Override) { untilDay(o); inShop(o); ofWeb(o); byAnn(o) }, with(func(q *asked) { q.namespace = "test" }), "not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			overrideContext := around(&c.request)
			if c.request.kind == "Node" {
				overrideContext.Namespace = nil
			}
			chain := admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{noted("one")}).WithModes(admit.Modes{"one": admit.Warn}).
				WithOverrides(Of([]admit.Override{quiet(c.override)}, overrideContext))
			result, err := chain.Run(t.Context(), c.request.request(t), nil)
			got := "wait"
			if err == nil {
				got = strings.Replace(string(result.Steps[0].Mode), "warn", "not", 1)
			} else if !errors.Is(err, admit.ErrNotReady) {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("the step is %s, want %s", got, c.want)
			}
		})
	}
}

// TestOverrideOfUnreadableLabels: an object whose labels cannot be read is no exception.
func TestOverrideOfUnreadableLabels(t *testing.T) {
	req := podRequest(t)
	req.Object = parse(t, `{"metadata":{"labels":{"app":5}}}`)
	o := quiet(func(o *admit.Override) { o.Selector = selectorOf("app!=web") })
	chain := admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{labeller("one", nil)}).WithOverrides(Of([]admit.Override{o}, around(&asked{now: time.Now()})))
	result, err := chain.Run(t.Context(), req, nil)
	if err != nil || len(result.Problems) != 1 || result.Problems[0].Type != field.ErrorTypeTypeInvalid {
		t.Errorf("%v, %v", result.Problems, err)
	}
}

// TestOverriddenModes: a step in the mode of an override does what it does in that mode of the policy, and says so.
func TestOverriddenModes(t *testing.T) {
	for _, c := range []struct {
		base, mode admit.Mode
		refused    bool
		warning    string
		audit      string
	}{
		{admit.Enforce, admit.Enforce, true, "", "override.one"},
		{admit.Warn, admit.Enforce, true, "", "override.one"},
		{admit.Off, admit.Enforce, true, "", "override.one"},
		{admit.Enforce, admit.Warn, false, "would be denied by one after 2099-12-31, the end of override quiet: spec.x: Forbidden: not here", "override.one would-deny.one"},
		{admit.Enforce, admit.DryRun, false, "", "override.one would-deny.one"},
		{admit.Enforce, admit.Off, false, "", "override.one"},
	} {
		t.Run(string(c.base)+" to "+string(c.mode), func(t *testing.T) {
			req := podRequest(t)
			o := quiet(func(o *admit.Override) { o.Mode, o.Until = c.mode, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) })
			chain := admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{labeller("one", refusal)}).WithModes(admit.Modes{"one": c.base})
			result, err := chain.WithOverrides(Of([]admit.Override{o}, around(&asked{now: time.Now()}))).Run(t.Context(), req, nil)
			if err != nil || len(result.Problems) > 0 != c.refused || strings.Join(req.Warnings(), "") != c.warning {
				t.Errorf("%v, %v, %q", err, result.Problems, req.Warnings())
			}
			for _, key := range strings.Fields(c.audit) {
				if _, found := req.AuditAnnotations()[key]; !found {
					t.Errorf("no audit annotation %s: %v", key, req.AuditAnnotations())
				}
			}
			if len(result.Steps) != 1 || result.Steps[0].Mode != c.mode || result.Steps[0].Override.Name != "quiet" {
				t.Errorf("%+v", result.Steps)
			}
		})
	}
}

// TestOverriddenCommit: a check commits only in mode enforce, also where an override says so.
func TestOverriddenCommit(t *testing.T) {
	for _, c := range []struct {
		base, mode admit.Mode
		dryRun     bool
		want       string
	}{
		{admit.Enforce, admit.Enforce, false, "commit"}, {admit.Enforce, admit.Warn, false, "run"}, {admit.Enforce, admit.DryRun, false, "run"}, {admit.Enforce, admit.Off, false, ""},
		{admit.Warn, admit.Enforce, false, "commit"}, {admit.Warn, admit.Enforce, true, "run"}, {admit.Off, admit.Enforce, false, "commit"},
	} {
		t.Run(fmt.Sprintf("%s to %s, dry run %v", c.base, c.mode, c.dryRun), func(t *testing.T) {
			ran := ""
			does := func(what string) func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) {
				return func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) {
					ran += what
					return nil, nil
				}
			}
			chain := admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{{Name: "one", Run: does("run"), Commit: does("commit")}}).WithModes(admit.Modes{"one": c.base})
			req := podRequest(t)
			req.DryRun = c.dryRun
			o := quiet(func(o *admit.Override) { o.Mode = c.mode })
			if _, err := chain.WithOverrides(Of([]admit.Override{o}, around(&asked{now: time.Now()}))).Run(t.Context(), req, nil); err != nil || ran != c.want {
				t.Errorf("%v, ran %q, want %q", err, ran, c.want)
			}
		})
	}
}

// TestOverrideExplains: the first line of a step says which override holds, and why.
func TestOverrideExplains(t *testing.T) {
	ask := asked{now: time.Now(), known: false}
	for _, c := range []struct {
		name     string
		override admit.Override
		want     string
	}{
		{"a mode", quiet(func(o *admit.Override) { o.Ticket = "T-1" }), "override quiet: mode off: why (T-1)"},
		{"with an end", quiet(func(o *admit.Override) { o.Until = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }), "override quiet: mode off until 2099-12-31: why"},
		{"for some", quiet(func(o *admit.Override) { o.EnforcePercent, o.Mode = 100, admit.Warn }), fmt.Sprintf(
			"override quiet: mode enforce (Pod p draws %d, enforcePercent is 100): why", admit.Origin{Namespace: "ns", Kind: "Pod", Name: "p"}.Draw("quiet"))},
		{"that has ended", quiet(func(o *admit.Override) { o.Until = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC) }), "override quiet has ended, after 2000-12-31"},
		{"an unknown namespace", quiet(func(o *admit.Override) { o.NamespaceSelector = selectorOf("!a") }),
			"namespace ns is not known: override quiet takes it for one without labels\noverride quiet: mode off: why"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := podRequest(t)
			req.Namespace = "ns"
			chain := admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{noted("one")}).WithOverrides(Of([]admit.Override{c.override}, around(&ask))).Explained()
			result, err := chain.Run(t.Context(), req, nil)
			if err != nil || strings.Join(result.Steps[0].Why, "\n") != c.want {
				t.Errorf("%v, %q, want %q", err, result.Steps[0].Why, c.want)
			}
		})
	}
}

// TestModeOf: a step may ask for the mode of another step of its chain.
func TestModeOf(t *testing.T) {
	var got []admit.Mode
	asks := admit.Validator[admit.Pod]{Name: "asks", Run: func(_ context.Context, req *admit.Request, _ *admit.Pod) (field.ErrorList, error) {
		got = append(got, req.ModeOf("one", admit.DryRun), req.ModeOf("two", admit.DryRun), req.ModeOf("none", admit.DryRun))
		return nil, nil
	}}
	chain := admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{asks, noted("one"), noted("two")}).WithModes(admit.Modes{"two": admit.Warn})
	if _, err := chain.WithOverrides(Of([]admit.Override{quiet(func(*admit.Override) {})}, around(&asked{now: time.Now()}))).Run(t.Context(), podRequest(t), nil); err != nil {
		t.Fatal(err)
	}
	if want := "[off warn dryrun]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestEnforcePercent: a larger percentage enforces the same workloads and more, and the replicas of one are alike.
func TestEnforcePercent(t *testing.T) {
	before := 0
	for _, percent := range []int{0, 1, 10, 50, 99, 100} {
		o := quiet(func(o *admit.Override) { o.Mode, o.EnforcePercent = admit.Warn, percent })
		now, enforced := asked{now: time.Now()}, 0
		chain := admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{noted("one")}).WithOverrides(Of([]admit.Override{o}, around(&now)))
		for n := range 1000 {
			modes := map[admit.Mode]bool{}
			for _, replica := range []string{"-5d4f8-x", "-5d4f8-y", "-77c9b-z"} {
				owner := fmt.Sprint("web", n, replica[:6])
				q := asked{op: admissionv1.Create, kind: "Pod", namespace: "ns", name: owner + replica[6:], owner: owner, is: map[string]string{}}
				result, err := chain.Run(t.Context(), q.request(t), nil)
				if err != nil {
					t.Fatal(err)
				}
				modes[result.Steps[0].Mode] = true
			}
			q := asked{op: admissionv1.Create, kind: "Deployment", namespace: "ns", name: fmt.Sprint("web", n), is: map[string]string{}}
			result, err := chain.Run(t.Context(), q.request(t), nil)
			if err != nil || len(modes) != 1 || !modes[result.Steps[0].Mode] {
				t.Fatalf("the pods of a Deployment are in the modes %v, and itself in %v: %v", modes, result.Steps, err)
			}
			if modes[admit.Enforce] {
				enforced++
			}
		}
		if enforced < before || enforced < percent*10-60 || enforced > percent*10+60 {
			t.Errorf("%d percent are %d of 1000 workloads, after %d", percent, enforced, before)
		}
		before = enforced
	}
}
