package review

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// writing is a route with one step that sets a field of a pod.
func writing(path string, operations ...admissionv1.Operation) admit.Route {
	whole := func(d *document.Document) *document.Document { return d }
	return admit.Route{Path: "/mutate-test", For: admit.Namespaced(podKind, operations, "pods"),
		Chain: admit.Mutate(whole, []admit.Mutator[document.Document]{{Name: "write", Doc: "sets a field",
			Run: func(_ context.Context, _ *admit.Request, d *document.Document) error {
				d.Root().At(strings.Split(path, "/")...).Set("x")
				return nil
			}}})}
}

func runOn(t *testing.T, manifest string, o requests.Options, routes ...admit.Route) report.Report {
	t.Helper()
	documents := requests.Read("test", strings.NewReader(manifest))
	if len(documents) != 1 {
		t.Fatalf("%d documents", len(documents))
	}
	body, err := requests.AsReview(documents[0], o, requests.NewCatalogue(nil))
	if err != nil {
		t.Fatal(err)
	}
	return Run(t.Context(), documents[0], body, Choice{Routes: routes}, kinds)
}

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {mine: 1}\n"

// A field in the result that the type does not know, and the input did not have, is told: the API server drops it.
func TestUnknownFieldIsTold(t *testing.T) {
	for path, want := range map[string]string{
		"spec/nodeSelectr":      `unknown field "spec.nodeSelectr"`,
		"spec/mine":             "", // was there before
		"spec/nodeName":         "",
		"metadata/labels/a.b/c": "",
	} {
		o, route := requests.Options{Operation: admissionv1.Create, Namespace: "n"}, writing(path, admissionv1.Create)
		for by, result := range map[string]report.Report{"the route": runOn(t, pod, o, route), "an API server": judgedBy(t, pod, o, route)} {
			got, want := strings.Join(result.Calls[0].Warnings, "\n"), want
			if path == "spec/mine" && by == "an API server" {
				want = `unknown field "spec.mine"` // which it has dropped before
			}
			if (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("%s of %s: warnings %q, want %q", path, by, got, want)
			}
		}
	}
}

// judgedBy is runOn with an API server, which calls one route.
func judgedBy(t *testing.T, manifest string, o requests.Options, route admit.Route) report.Report {
	t.Helper()
	documents := requests.Read("test", strings.NewReader(manifest))
	body, err := requests.AsReview(documents[0], o, requests.NewCatalogue(nil))
	if err != nil {
		t.Fatal(err)
	}
	api, err := Cluster{Routes: []admit.Route{route}, Path: route.Path}.Open(t.Context(), documents, o)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	choice, err := Chooser{Routes: []admit.Route{route}, Path: route.Path, In: api}.Choose(body)
	if err != nil {
		t.Fatal(err)
	}
	return Run(t.Context(), documents[0], body, choice, kinds)
}

// Each route sees what those before made of the object.
func TestRoutesRunOnOneAnother(t *testing.T) {
	second := writing("spec/second", admissionv1.Create)
	result := runOn(t, pod, requests.Options{Operation: admissionv1.Create, Namespace: "n"}, writing("spec/first", admissionv1.Create), second, second)
	if after := string(result.After); !strings.Contains(after, `"first":"x"`) || !strings.Contains(after, `"second":"x"`) {
		t.Errorf("after: %s", after)
	}
	if len(result.Calls) != 3 || result.Calls[1].Outcome != "mutated" || result.Calls[2].Outcome != "allowed" || result.Namespace != "n" {
		t.Errorf("%+v", result)
	}
}

func TestOldObject(t *testing.T) {
	seen := ""
	look := admit.Route{Path: "/mutate-test", For: admit.Namespaced(podKind, []admissionv1.Operation{admissionv1.Update}, "pods/status"),
		Chain: admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{{Name: "look", Run: func(_ context.Context, req *admit.Request, _ *admit.Pod) error {
			seen = strings.Join(strings.Fields(string(req.OldObject.Bytes())), "") + req.UserInfo.Username + strings.Join(req.UserInfo.Groups, ",")
			return nil
		}}})}
	o := requests.Options{Operation: admissionv1.Update, SubResource: "status", User: "me", Groups: []string{"a", "b"}, Old: []byte(`{"old":1}`)}
	if result := runOn(t, pod, o, look); result.Verdict != "allowed" || seen != `{"old":1}mea,b` {
		t.Errorf("%+v saw %s", result, seen)
	}
	o.Old = nil
	if runOn(t, pod, o, look); !strings.Contains(seen, `"mine":1`) {
		t.Errorf("without --old: %s", seen)
	}
}

// TestDelete: a DELETE has no object, only the stored one.
func TestDelete(t *testing.T) {
	seen := ""
	look := admit.Route{Path: "/validate-test", For: admit.Namespaced(podKind, []admissionv1.Operation{admissionv1.Delete}, "pods"),
		Chain: admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{{Name: "look",
			Run: func(_ context.Context, req *admit.Request, _ *admit.Pod) (field.ErrorList, error) {
				seen = string(req.Operation) + " " + req.ObjectName()
				return nil, nil
			}}})}
	if result := runOn(t, pod, requests.Options{Operation: admissionv1.Delete}, look); result.Verdict != "allowed" || seen != "DELETE p" {
		t.Errorf("%+v saw %q", result, seen)
	}
}

// TestChooseLeavesOutWhatNothingReads: as in a cluster, an update that changes nothing that a route reads does not call it.
func TestChooseLeavesOutWhatNothingReads(t *testing.T) {
	route := writing("spec/x", admissionv1.Create, admissionv1.Update)
	route.Reads = []string{"spec", "metadata.labels"}
	for _, c := range []struct {
		name      string
		operation admissionv1.Operation
		old       string
		path      string
		want      int
	}{
		{"created", admissionv1.Create, "", "", 1},
		{"the same object", admissionv1.Update, "", "", 0},
		{"another spec", admissionv1.Update, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"b"}}`, "", 1},
		{"a label goes", admissionv1.Update, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"}},"spec":{"nodeName":"a"}}`, "", 1},
		{"a finalizer goes", admissionv1.Update, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","finalizers":["f"]},"spec":{"nodeName":"a"}}`, "", 0},
		{"by its path", admissionv1.Update, "", "/mutate-test", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			documents := requests.Read("test", strings.NewReader("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: a}\n"))
			o := requests.Options{Operation: c.operation}
			if c.old != "" {
				o.Old = []byte(c.old)
			}
			body, err := requests.AsReview(documents[0], o, requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			choice, err := Chooser{Routes: []admit.Route{route}, Path: c.path}.Choose(body)
			if err != nil || len(choice.Routes) != c.want {
				t.Errorf("%d routes, want %d; %v", len(choice.Routes), c.want, err)
			}
			if c.want == 0 && !strings.Contains(choice.Hint, "changes nothing in spec, metadata.labels; --old") {
				t.Errorf("the hint is %q", choice.Hint)
			}
		})
	}
}

// TestOtherOperations: what is not called for a creation, and is for a change, is named; a change of what is not known is not judged.
func TestOtherOperations(t *testing.T) {
	updates := writing("spec/x", admissionv1.Update)
	check := admit.Route{Path: "/validate-test", For: updates.For, Chain: admit.Validate(func(d *document.Document) *document.Document { return d },
		[]admit.Validator[document.Document]{{Name: "v", Doc: "refuses nothing", Run: func(context.Context, *admit.Request, *document.Document) (field.ErrorList, error) { return nil, nil }}})}
	documents := requests.Read("test", strings.NewReader(strings.Replace(pod, "{mine: 1}", "{containers: [{name: c, image: i}]}", 1)))
	for _, c := range []struct {
		name    string
		o       requests.Options
		route   admit.Route
		assumed bool
		want    report.Verdict
	}{
		{"created", requests.Options{Operation: admissionv1.Create}, check, false, report.Skipped},
		{"changed", requests.Options{Operation: admissionv1.Update, Old: []byte(`{"metadata":{"name":"p"}}`)}, check, false, report.Allowed},
		{"changed from what is not known", requests.Options{Operation: admissionv1.Update}, check, true, report.NotJudged},
		{"changed, and not checked", requests.Options{Operation: admissionv1.Update}, updates, true, report.Allowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := requests.AsReview(documents[0], c.o, requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			chooser := Chooser{Routes: []admit.Route{c.route}}
			if c.assumed {
				if chooser.In, err = (Cluster{Routes: chooser.Routes, Path: c.route.Path}).Open(t.Context(), documents, c.o); err != nil {
					t.Fatal(err)
				}
				defer chooser.In.Close()
			}
			choice, err := chooser.Choose(body)
			if err != nil {
				t.Fatal(err)
			}
			choice.Assumed = c.assumed
			result := Run(t.Context(), documents[0], body, choice, kinds)
			if result.Verdict != c.want || (c.want == report.Skipped) != strings.Contains(result.Hint, "try --operation UPDATE and --old") {
				t.Errorf("%s %q %q", result.Verdict, result.Unjudged, result.Hint)
			}
		})
	}
}

// TestKustomization: a file for kustomize is no object that an API server refuses.
func TestKustomization(t *testing.T) {
	d := requests.Read("test", strings.NewReader("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"))[0]
	if _, err := requests.AsReview(d, requests.Options{}, requests.NewCatalogue(nil)); err == nil || !strings.Contains(err.Error(), "kubectl kustomize DIR | usherctl review -") {
		t.Error(err)
	}
}

// kinds lists the kinds of the tests' routes.
var kinds = Kinds{{Version: "v1", Kind: "Pod"}: func() any { return &corev1.Pod{} }}

// TestNotesAreMembers: what suites say beside the calls stands in the JSON before the hint, each under its name.
func TestNotesAreMembers(t *testing.T) {
	r := report.Report{Subject: report.Subject{Kind: "Pod"}, Hint: "try", Notes: []suite.Note{{Name: "quota", Value: map[string]int{"a": 1}}, {Name: "profiles", Value: []string{"b"}}}}
	text, err := json.Marshal(r)
	if err != nil || !strings.HasSuffix(string(text), `,"quota":{"a":1},"profiles":["b"],"hint":"try"}`) {
		t.Errorf("%s, %v", text, err)
	}
}
