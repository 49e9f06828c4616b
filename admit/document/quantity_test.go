package document

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestHostileQuantities: a quantity that resource.Quantity would take minutes to parse is refused where a quantity is
// expected; elsewhere the same text, such as a commit in a label, is accepted.
func TestHostileQuantities(t *testing.T) {
	const pod = `{"metadata":{"labels":{"commit":"12e4567"}},"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"1e5000000"}],"args":["1e5000000"]RES}]EXTRA}}`
	cases := []struct {
		resources, extra string
		refused          bool
	}{
		{``, ``, false},
		{`,"resources":{"requests":{"cpu":"1e3","memory":"12E"}}`, ``, false},
		{`,"resources":{"requests":{"cpu":"1e-5000000"}}`, ``, true},
		{`,"resources":{"limits":{"memory":"1E999"}}`, ``, true},
		{`,"resources":{"limits":{"memory":1e5000000}}`, ``, true},
		{`,"resources":{"limits":{"memory":"` + strings.Repeat("9", 65) + `"}}`, ``, true},
		{``, `,"overhead":{"cpu":"+1e+100"}`, true},
		{``, `,"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1e4000"}}]`, true},
	}
	for _, c := range cases {
		text := strings.NewReplacer("RES", c.resources, "EXTRA", c.extra).Replace(pod)
		d, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		As[corev1.Pod](d.Root())
		if refused := d.Err() != nil; refused != c.refused {
			t.Errorf("%s%s: %v", c.resources, c.extra, d.Err())
		}
	}
}

// TestHostileQuantitiesOfParts: quantities are also recognized in parts that are decoded alone.
func TestHostileQuantitiesOfParts(t *testing.T) {
	const pod = `{"spec":{"overhead":{"cpu":"1e-500"},"volumes":[{"emptyDir":{"sizeLimit":"1e500"}}],"nodeSelector":{"cpu":"1e500"}},"status":{"max":[{"a":"1e500"}]}}`
	for _, c := range []struct {
		name    string
		decode  func(root *Value)
		refused bool
	}{
		{"a resource list", func(root *Value) { As[corev1.ResourceList](root.At("spec", "overhead")) }, true},
		{"a quantity", func(root *Value) { As[string](root.At("spec", "overhead", "cpu")) }, true},
		{"a list of volumes", func(root *Value) { As[[]corev1.Volume](root.At("spec", "volumes")) }, true},
		{"an emptyDir", func(root *Value) {
			for v := range root.At("spec", "volumes").Elements() {
				As[corev1.EmptyDirVolumeSource](v.Get("emptyDir"))
			}
		}, true},
		{"a list of resource lists", func(root *Value) {
			for v := range root.At("status", "max").Elements() {
				As[map[string]string](v)
			}
		}, true},
		{"other texts", func(root *Value) { As[map[string]string](root.At("spec", "nodeSelector")) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Parse([]byte(pod))
			if err != nil {
				t.Fatal(err)
			}
			if c.decode(d.Root()); (d.Err() != nil) != c.refused {
				t.Error(d.Err())
			}
		})
	}
}
