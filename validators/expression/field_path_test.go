package expression

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestFieldPath(t *testing.T) {
	object := raw(t, `{"spec":{"n":5,"on":true,"l":[{"a":"b"}],"k":{"app.io/x y":"z"},"none":null}}`)
	for _, c := range []struct{ text, path, value string }{
		{"spec.n", "spec.n", "5"},
		{".spec.on", "spec.on", "true"},
		{"spec.l[0].a", "spec.l[0].a", "b"},
		{"spec.l[7].a", "spec.l[7].a", ""},
		{"spec.k['app.io/x y']", "spec.k[app.io/x y]", "z"},
		{`spec["k"]`, "spec.k", ""},
		{"spec.none", "spec.none", ""},
		{"spec.n[0].a", "spec.n[0].a", ""},
		{"", "", ""}, {".", "", ""}, {"a..b", "", ""}, {"a[", "", ""}, {"a[]", "", ""}, {"a[-1]", "", ""}, {"a['']", "", ""}, {"a['b]", "", ""}, {"a[0]b", "", ""},
	} {
		path, err := parsePath(c.text)
		if (err == nil) != (c.path != "") {
			t.Errorf("%q: %v", c.text, err)
		}
		if err != nil {
			continue
		}
		value := path.value(object)
		if value == (field.OmitValueType{}) {
			value = ""
		}
		if got := path.field().String(); got != c.path || fmt.Sprint(value) != c.value {
			t.Errorf("%q: %s has %v, want %s, %s", c.text, got, value, c.path, c.value)
		}
	}
}

// FuzzFieldPath: an accepted path can be shown.
func FuzzFieldPath(f *testing.F) {
	for _, text := range []string{"spec.a[0]['b'].c", `.a["b"]`, "a[", "[0]", "['x']"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if path, err := parsePath(text); err == nil && (path.field() == nil || path.field().String() == "") {
			t.Errorf("%q", text)
		}
	})
}
