package policytest

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// TestVerdicts: what an API server refuses itself is invalid, and what depends on an object that is not there is not judged. A case
// may expect both.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct{ name, containers, namespace, expect, want string }{
		{"allowed", "[{name: app, image: nginx}]", "known", "allowed", ""},
		{"invalid", "[]", "known", "invalid", ""},
		{"invalid, and allowed is expected", "[]", "known", "allowed", "expected allowed, got invalid: spec.containers: Required value"},
		{"invalid, and denied is expected", "[{name: app}]", "known", "denied", "expected denied, got invalid: spec.containers[0].image"},
		{"not judged", "[{name: app, image: nginx}]", "unknown", "not judged", ""},
		{"not judged, and allowed is expected", "[{name: app, image: nginx}]", "unknown", "allowed", "expected allowed, got not judged: step asks for the Namespace unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := new(questions)
			step := admit.Mutator[admit.Pod]{Name: "step", Run: func(_ context.Context, req *admit.Request, _ *admit.Pod) error {
				if req.Namespace == "unknown" {
					asked.Missing(admit.CollectionNamespaces, req.Namespace)
				}
				return nil
			}}
			route := admit.Route{Path: "/mutate-pods", For: admit.Pods(admissionv1.Create), Call: admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 10, Reinvocation: registration.NeverReinvocationPolicy}, Chain: admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{step})}
			w := &instance{pool: poolOf(t), routes: []admit.Route{route}, opened: opened{catalogue: requests.NewCatalogue([]admit.Route{route}), steps: []string{"step"}, missing: asked}}
			found, problems := Read("dir/case.yaml", []byte("manifest: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: "+c.namespace+"}, spec: {containers: "+c.containers+"}}\nexpect: {verdict: "+c.expect+"}\n"))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			r := runIn(t.Context(), w, found[0], nil).Report
			named := len(r.Findings) > 0 && strings.HasPrefix(r.Findings[0].Message, "request.subresource")
			if c.want == "" && named || c.want != "" && (len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Message, c.want)) {
				t.Errorf("%s: %+v, want %q", r.Verdict, r.Findings, c.want)
			}
		})
	}
}

// TestHints: what would reach a route is named as a case has it, and not as flags of usherctl review.
func TestHints(t *testing.T) {
	route := admit.Route{Path: "/validate-pod-binding", For: admit.Pods(admissionv1.Delete)}
	w := &instance{pool: poolOf(t), routes: []admit.Route{route}, opened: opened{catalogue: requests.NewCatalogue([]admit.Route{route}), missing: new(questions)}}
	found, problems := Read("dir/case.yaml", []byte("manifest: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: b}]}}\nexpect: {verdict: allowed}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := runIn(t.Context(), w, found[0], nil).Report
	if len(r.Findings) != 1 || !strings.HasSuffix(r.Findings[0].Message, "try request.operation: DELETE") {
		t.Errorf("%+v", r.Findings)
	}
}

// TestMisspeltSubresources: no case passes as skipped because of a subresource that nothing has.
func TestMisspeltSubresources(t *testing.T) {
	route := admit.Route{Path: "/x", For: admit.Pods(admissionv1.Connect)}
	route.For[0].Resources = []string{"pods/special"}
	w := &instance{pool: poolOf(t), routes: []admit.Route{route}, opened: opened{catalogue: requests.NewCatalogue(nil), missing: new(questions)}}
	for _, c := range []struct{ version, sub, want string }{
		{"v1", "statsu", "request.subresource statsu: no kind and no route has it; did you mean status?"},
		{"v1", "specal", "request.subresource specal: no kind and no route has it; did you mean special?"},
		{"v1", "entirely-other", "request.subresource entirely-other: no kind and no route has it; there are "},
		{"v1", "status", ""}, {"v1", "special", ""}, {"v1", "ephemeralcontainers", ""}, {"other.example.com/v1", "restart", ""},
		{"other.example.com/v1", "statsu", "request.subresource statsu: no kind and no route has it"},
	} {
		found, _ := Read("dir/case.yaml", []byte("manifest: {apiVersion: "+c.version+", kind: Pod, metadata: {name: p}}\n"+
			"request: {operation: UPDATE, subresource: "+c.sub+"}\nexpect: {verdict: skipped}\n"))
		r := runIn(t.Context(), w, found[0], nil).Report
		named := len(r.Findings) > 0 && strings.HasPrefix(r.Findings[0].Message, "request.subresource")
		if c.want == "" && named || c.want != "" && (len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Message, c.want)) {
			t.Errorf("%s of %s: %s, %+v", c.sub, c.version, r.Verdict, r.Findings)
		}
	}
}

// TestMisspeltFields: fields that the kind of an object does not have are named first, also if the case passes. No case counts for the quota of another.
func TestMisspeltFields(t *testing.T) {
	w := &instance{pool: poolOf(t), opened: opened{catalogue: requests.NewCatalogue(nil), missing: new(questions)}}
	quota := map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": "q", "namespace": "default"},
		"spec": map[string]any{"hard": map[string]any{"pods": "1"}}}
	w.objects = []*unstructured.Unstructured{{Object: quota}}
	for range 2 {
		found, _ := Read("dir/case.yaml", []byte("manifest: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, imge: j}], nodeSelctor: {}}}\n"+
			"expect: {verdict: skipped}\n"))
		r := runIn(t.Context(), w, found[0], nil).Report
		if r.Verdict != report.Passed || len(r.Findings) != 2 || r.Findings[0].Message+r.Findings[1].Message !=
			"spec.containers[0].imge: unknown field; did you mean image?spec.nodeSelctor: unknown field; did you mean nodeSelector?" {
			t.Errorf("%s: %+v", r.Verdict, r.Findings)
		}
	}
}

// TestSuggestions: what has changed can be accepted, by a command among words, unless a refusal is lost: nothing is pasted that makes a case worthless.
func TestSuggestions(t *testing.T) {
	for _, c := range []struct {
		expected, got string
		accepts       bool
	}{{"allowed", "denied", true}, {"invalid", "denied", true}, {"denied", "allowed", false}, {"invalid", "allowed", false}, {"denied", "skipped", false}} {
		r := Result{Case: &Case{Name: "n", expect: map[string]expectation{"verdict": {value: c.expected}}}, got: map[string]any{"verdict": c.got}}
		r.Report.Findings = []report.Finding{{ID: "verdict", Severity: report.Error}}
		r.suggest("usherctl test")
		if f := r.Report.Findings[0]; f.Fix != "" || strings.Contains(f.Look, "--update --run") != c.accepts || f.Look == "" {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}
