package views

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/document/strategic"
	"usher.dev/usher/colocation/api"
)

func TestReservation(t *testing.T) {
	raw := `{"metadata":{"labels":{"b":"1","a":"2"}},"spec":{"owners":[{"object":{"namespace":"n"}}],"ttl":"1h",
		"template":{"metadata":{"labels":{"in":"it"}},"spec":{"priority":7,"containers":[{"name":"c","future":1}]}}}}`
	d := viewed(t, raw)
	r := AsReservation(d)
	template, ok := r.Template()
	if !ok || template.Label("in") != "it" || *template.Priority() != 7 || template.Spec().Containers[0].Name != "c" {
		t.Error("the template reads wrong")
	}
	if got := template.PriorityClassNamePath().String() + " " + template.SpecPath().String(); got != "spec.template.spec.priorityClassName spec.template.spec" {
		t.Error(got)
	}
	if owners := r.Owners(); len(owners) != 1 || owners[0].Object.Namespace != "n" {
		t.Errorf("%v", owners)
	}
	if labels := r.Labels(); !maps.Equal(labels, map[string]string{"b": "1", "a": "2"}) {
		t.Error(labels)
	}
	patch, err := strategic.Parse([]byte(`{"spec":{"containers":[{"name":"d"}]}}`), corev1.Pod{})
	if err != nil || template.Merge(patch) != nil {
		t.Fatal(err)
	}
	r.DefaultTTL("24h")
	r.DefaultAllocateOnce(true)
	want := `[{"op":"add","path":"/spec/template/spec/containers/0","value":{"name":"d"}},{"op":"add","path":"/spec/allocateOnce","value":true}]`
	if got := string(d.PatchJSON()); got != want {
		t.Error(got)
	}
}

func TestReservationWithoutTemplate(t *testing.T) {
	for _, raw := range []string{`{}`, `{"spec":null}`, `{"spec":{"template":null}}`} {
		if _, ok := AsReservation(viewed(t, raw)).Template(); ok {
			t.Errorf("%s has a template", raw)
		}
	}
}

func TestColocationProfileSpecChanged(t *testing.T) {
	view := AsColocationProfile(viewed(t, `{"metadata":{"name":"p"},"spec":{"patch":{"future":1},"qosClass":"BE"}}`))
	for raw, want := range map[string]bool{
		`{"metadata":{"name":"q"},"spec":{"patch":{"future":1},"qosClass":"BE"}}`: false,
		`{"spec":{"patch":{"future":2},"qosClass":"BE"}}`:                         true,
		`{}`: true,
	} {
		if view.SpecChanged(viewed(t, raw)) != want {
			t.Error(raw)
		}
	}
	if o := view.Object(); !view.SpecChanged(nil) || string(o.Spec.Patch) != `{"future":1}` || o.Spec.QoSClass != api.QoSBE {
		t.Errorf("%+v", o)
	}
}

func viewed(t *testing.T, raw string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
