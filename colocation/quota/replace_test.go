package quota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/test/growth"
	"usher.dev/usher/test/quotatest"
)

func TestReplaced(t *testing.T) {
	for _, c := range []struct{ text, list, want string }{
		{"cpu:example.io/cpu,memory:", "cpu=2 memory=4Gi example.io/gpu=1", "example.io/cpu=2k example.io/gpu=1"},
		{"cpu:example.io/cpu", "cpu=1500m", "example.io/cpu=1500"},
		{"cpu:example.io/cpu", "cpu=100u", "example.io/cpu=1"}, // a fraction of a milli-core counts as one
		{"memory:example.io/memory", "memory=4Gi", "example.io/memory=4Gi"},
		{"example.io/cpu:cpu", "example.io/cpu=2", "cpu=2"},
		{"memory:", "cpu=1 memory=1Gi", "cpu=1"},
		{" cpu : a , memory : ", "cpu=1 memory=1Gi", "a=1k"},
		{"\tcpu:a\n", "cpu=1", "a=1k"},
		// The target already exists.
		{"a:b", "a=1 b=2", "a=1 b=2"},
		{"a:b,a:c", "a=1 b=2", "b=2 c=1"},
		{"a:a", "a=1", "a=1"},
		{"cpu:cpu", "cpu=1", "cpu=1"},
		{"a:c,b:c", "a=1 b=2", "b=2 c=1"},
		// In sequence.
		{"a:b,b:c", "a=1", "c=1"},
		{"b:c,a:b", "a=1 b=2", "b=1 c=2"},
		{"b:,a:b", "a=1 b=2", "b=1"},
		{"a:b,b:", "a=1 b=2", "a=1"},
		{"a:b,b:a", "a=1 b=2", "a=1 b=2"},
		// Ignored entries.
		{"", "cpu=1", "cpu=1"},
		{"cpu", "cpu=1", "cpu=1"},
		{"cpu:a:b", "cpu=1", "cpu=1"},
		{"cpu::", "cpu=1", "cpu=1"},
		{":a", "cpu=1", "cpu=1"},
		{":", "cpu=1", "cpu=1"},
		{",,,cpu:a,,", "cpu=1", "a=1k"},
		{"x:y", "cpu=1", "cpu=1"},
		{"cpu:a", "", ""},
		{"cpu:" + strings.Repeat("x", maxResourceName+1), "cpu=1", "cpu=1"},
	} {
		if got := quotatest.InShort(replaced(quotatest.Amounts(c.list), parseReplacements(c.text))); got != c.want {
			t.Errorf("%.60q on %s: %s, want %s", c.text, c.list, got, c.want)
		}
	}
}

// Everything that counts is renamed, and the shared spec stays unchanged.
func TestReplace(t *testing.T) {
	container := func(list string) []corev1.Container {
		return []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: quotatest.Amounts(list), Limits: quotatest.Amounts(list)}}}
	}
	made := func(list string) *corev1.PodSpec {
		return &corev1.PodSpec{NodeName: "n", InitContainers: container(list), Containers: container(list), Overhead: quotatest.Amounts(list)}
	}
	spec := made("cpu=2 memory=1Gi")
	if got, want := replace(spec, "cpu:a,memory:"), made("a=2k"); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !equality.Semantic.DeepEqual(spec, made("cpu=2 memory=1Gi")) {
		t.Errorf("the spec itself was changed: %+v", spec)
	}
	if replace(spec, "nothing") != spec {
		t.Error("a text that says nothing makes a copy")
	}
}

// A pod with the annotation has both requests; Counting chooses.
func TestReplacedPod(t *testing.T) {
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: quotatest.Amounts("cpu=2 memory=4Gi example.io/gpu=1")}}},
		Overhead:   quotatest.Amounts("cpu=100m"),
	}
	meta := &metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationReplaceResources: "cpu:example.io/cpu,memory:"}}
	p := PodOf(meta, spec, &corev1.PodStatus{})
	for replace, want := range map[bool]string{
		false: "cpu=2100m example.io/gpu=1 memory=4Gi",
		true:  "example.io/cpu=2100 example.io/gpu=1",
	} {
		if got := quotatest.InShort(Counting{Replace: replace}.Charge(p)); got != want {
			t.Errorf("Replace %v: %s, want %s", replace, got, want)
		}
	}
}

// Hostile text costs no more than in proportion to its length.
func TestReplaceHostileText(t *testing.T) {
	spec := &corev1.PodSpec{}
	for range 1000 {
		spec.Containers = append(spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: quotatest.Amounts("a=1"), Limits: quotatest.Amounts("a=1")}})
	}
	for _, text := range []func(n int) string{
		func(n int) string { return strings.Repeat("a:b,b:a,", n/8) },
		func(n int) string { return strings.Repeat(":", n) },
		func(n int) string { return strings.Repeat(",", n) },
		func(n int) string { return strings.Repeat("x:y,", n/4) },
		func(n int) string { return strings.Repeat("a", n) + ":b" },
		func(n int) string { return "a:" + strings.Repeat(" ", n) + "b" },
	} {
		growth.WantLinear(t, 1<<15, func(n int) func() {
			hostile := text(n)
			return func() { replace(spec, hostile) }
		})
	}
	if n := len(parseReplacements(strings.Repeat("a:b,", 1000))); n != maxReplacements {
		t.Errorf("%d replacements", n)
	}
}
