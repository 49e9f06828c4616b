package handlers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// TestDenial: each problem is in the message with its step, and is a cause; the problems decide about code and reason.
func TestDenial(t *testing.T) {
	req := &admit.Request{Object: parsed(t, `{"metadata":{"name":"p"}}`), Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: "p"}
	refused, invalid := field.Forbidden(field.NewPath("spec", "x"), "not here"), field.Invalid(field.NewPath("spec", "y"), "5", "must be 4")
	status := denial(req, []admit.Problem{{Step: "a", Error: refused}, {Step: "a", Error: invalid}, {Step: "c", Error: invalid}}, "0a1b2c3d")
	want := `a: spec.x: Forbidden: not here; a: spec.y: Invalid value: "5": must be 4; c: spec.y: Invalid value: "5": must be 4 (refusal 0a1b2c3d)`
	if status.Message != want || status.Code != 422 || status.Reason != "Invalid" || len(status.Details.Causes) != 3 || status.Details.Causes[1].Field != "spec.y" {
		t.Errorf("%+v", status)
	}
	unreadable := parsed(t, `{"metadata":{"labels":[]}}`)
	admit.AsPod(unreadable).Labels()
	wrong, ok := errors.AsType[*field.Error](unreadable.Err())
	if !ok {
		t.Fatal(unreadable.Err())
	}
	if status := denial(req, []admit.Problem{{Step: "a", Error: wrong}}, "0a1b2c3d"); status.Code != 400 || status.Reason != "BadRequest" || !strings.Contains(status.Message, "metadata.labels: ") {
		t.Errorf("%+v", status)
	}
}

// TestNamesOfDenials: a denial names its object as TargetName does.
func TestNamesOfDenials(t *testing.T) {
	for name, c := range map[string]struct {
		request admit.Request
		want    string
	}{
		"named":                           {admit.Request{Name: "a"}, "a"},
		"of a collection that is deleted": {admit.Request{OldObject: parsed(t, `{"metadata":{"name":"a"}}`)}, "a"},
		"named otherwise than the object": {admit.Request{Name: "a", OldObject: parsed(t, `{"metadata":{"name":"b"}}`), Object: parsed(t, `{"metadata":{"name":"b"}}`)}, "a"},
		"in the object only":              {admit.Request{Object: parsed(t, `{"metadata":{"name":"a","generateName":"b-"}}`)}, "a"},
		"not named yet":                   {admit.Request{Object: parsed(t, `{"metadata":{"generateName":"a"}}`)}, ""},
		"without a name":                  {admit.Request{Object: parsed(t, `{"metadata":{}}`)}, ""},
		"another":                         {admit.Request{OldObject: parsed(t, `{"metadata":{"name":"b"}}`)}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			status := denial(&c.request, []admit.Problem{{Error: field.Forbidden(field.NewPath("x"), "y")}}, "")
			if status.Details.Name != c.want {
				t.Errorf("%q, want %q", status.Details.Name, c.want)
			}
		})
	}
}

// TestLongProblems: neither a long value nor a long text hides the end of a problem, and all together are bounded.
func TestLongProblems(t *testing.T) {
	long := field.Invalid(field.NewPath("data"), strings.Repeat("v", 100_000), strings.Repeat("m", 5*1024)+" (rule r)")
	req := &admit.Request{Object: parsed(t, `{"metadata":{"name":"p"}}`), Name: "p"}
	var problems []admit.Problem
	for range 40 {
		problems = append(problems, admit.Problem{Step: "a", Error: long})
	}
	one := denial(req, problems[:1], "0a1b2c3d")
	if want := strings.Repeat("m", 5*1024) + " (rule r) (refusal 0a1b2c3d)"; !strings.HasSuffix(one.Message, want) || len(one.Message) > 7000 {
		t.Errorf("%d bytes: …%s", len(one.Message), one.Message[len(one.Message)-100:])
	}
	if cause := one.Details.Causes[0].Message; !strings.HasSuffix(cause, "m (rule r) (usher, step a, refusal 0a1b2c3d)") {
		t.Errorf("…%s", cause[len(cause)-100:])
	}
	all := denial(req, problems, "0a1b2c3d")
	if n := len(all.Details.Causes); len(all.Message) > 52<<10 || n == 0 || !strings.HasSuffix(all.Message, fmt.Sprintf("; and %d more problems (refusal 0a1b2c3d)", 40-n)) {
		t.Errorf("%d bytes, %d causes: …%s", len(all.Message), n, all.Message[len(all.Message)-100:])
	}
}

// TestRefusalID: who is refused again for the same reason hears the same id, whatever the name that the API server has
// generated and the value that was refused; another workload, or another rule, has another one.
func TestRefusalID(t *testing.T) {
	const template = `{"kind":"Pod","metadata":{"namespace":"apps","generateName":"web-5f7-","name":"web-5f7-%s","ownerReferences":[{"kind":"ReplicaSet","name":"%s","controller":true}]}}`
	id := func(owner, suffix, value, path string) string {
		object, err := document.Parse(fmt.Appendf(nil, template, suffix, owner))
		if err != nil {
			t.Fatal(err)
		}
		request := &admit.Request{Operation: "CREATE", Namespace: "apps", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: object}
		return refusalID(request, []admit.Problem{{Step: "env", Error: field.Invalid(field.NewPath(path), value, "no")}})
	}
	first := id("web-5f7", "abcde", "1", "spec")
	if again := id("web-5f7", "fghij", "2", "spec"); again != first || len(first) != 8 {
		t.Errorf("%s and then %s", first, again)
	}
	if id("api-5f7", "abcde", "1", "spec") == first || id("web-5f7", "abcde", "1", "metadata") == first {
		t.Error("another workload or field has the same id")
	}
}
