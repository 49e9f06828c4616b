package views

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
)

func TestElasticQuota(t *testing.T) {
	q := AsElasticQuota(viewed(t, `{"metadata":{"name":"q","labels":{"a":"b"}},"spec":{"max":{"cpu":2,"memory":"1Gi"},"future":1},"status":{"used":{"cpu":"1"}}}`))
	object := q.Object()
	used, most := object.Status.Used["cpu"], q.Max()["cpu"]
	if object.Name != "q" || object.Labels["a"] != "b" || used.String() != "1" || most.String() != "2" || len(q.Max()) != 2 {
		t.Errorf("%+v", object)
	}
	for raw, want := range map[string]bool{
		`{"metadata":{"name":"r"},"spec":{"max":{"cpu":2,"memory":"1Gi"},"future":1}}`: false,
		`{"metadata":{"name":"q"},"spec":{"max":{"cpu":2,"memory":"1Gi"},"future":2}}`: true,
		`{}`: true,
	} {
		if got := q.SpecChanged(AsElasticQuota(viewed(t, raw))); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
	for _, raw := range []string{`{}`, `{"spec":null}`, `{"spec":{"max":null}}`} {
		if most := AsElasticQuota(viewed(t, raw)).Max(); most != nil {
			t.Errorf("%s: %v", raw, most)
		}
	}
}

// A field of a stored quota that does not decode is not an error of the request; the metadata is read nevertheless.
func TestElasticQuotaReadable(t *testing.T) {
	for raw, want := range map[string]int{
		`{"metadata":{"name":"q","labels":{"a":"b"}},"spec":{"max":{"cpu":"1"}}}`:           1,
		`{"metadata":{"name":"q","labels":{"a":"b"}},"spec":{"max":{"cpu":"1e-5000000"}}}`:  0,
		`{"metadata":{"name":"q","labels":{"a":"b"}},"spec":{"max":{"cpu":"1","x":true}}}`:  0,
		`{"metadata":{"name":"q","labels":{"a":"b"}},"spec":{"max":{"cpu":"1"},"min":"x"}}`: 1,
		`{"metadata":{"name":"q","labels":{"a":"b"}},"spec":"x","status":[]}`:               0,
	} {
		d := viewed(t, raw)
		object := AsElasticQuota(d).Readable()
		if object.Name != "q" || object.Labels["a"] != "b" || len(object.Spec.Max) != want || d.Err() != nil {
			t.Errorf("%s: %+v, %v", raw, object, d.Err())
		}
	}
}

// The typed quota equals what the API server would decode, and errors have the path of the field.
func TestElasticQuotaObject(t *testing.T) {
	raw := `{"apiVersion":"a/v1","kind":"K","metadata":{"name":"q","generation":3},"spec":{"min":{"x":"1"},"max":{"x":2}},"status":{"used":{"x":"3"}}}`
	d := viewed(t, raw)
	if diff := cmp.Diff(document.As[api.ElasticQuota](d.Root()), AsElasticQuota(d).Object()); diff != "" {
		t.Error(diff)
	}
	d = viewed(t, `{"spec":{"min":{"x":"1"},"max":{"x":"lots"}}}`)
	if AsElasticQuota(d).Object(); d.Err() == nil || !strings.HasPrefix(d.Err().Error(), "spec.max: ") || !strings.Contains(d.Err().Error(), "x: not a quantity") {
		t.Error(d.Err())
	}
}
