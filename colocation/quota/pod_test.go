package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/colocation/api"
)

// TestCharge: overhead and replacements count as the gates say, also both.
func TestCharge(t *testing.T) {
	two, half := resource.MustParse("2"), resource.MustParse("500m")
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": two}}}},
		Overhead:   corev1.ResourceList{"cpu": half},
	}
	meta := &metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationReplaceResources: "cpu:example.io/cpu"}}
	for want, how := range map[string]Counting{
		"cpu=2500m":           {},
		"cpu=2":               {IgnoreOverhead: true},
		"example.io/cpu=2500": {Replace: true},
		"example.io/cpu=2k":   {Replace: true, IgnoreOverhead: true},
	} {
		got := ""
		for name, q := range how.Charge(PodOf(meta, spec, &corev1.PodStatus{})) {
			if !q.IsZero() {
				got += string(name) + "=" + q.String()
			}
		}
		if got != want {
			t.Errorf("%+v: %s, not %s", how, got, want)
		}
	}
	if ended := PodOf(meta, spec, &corev1.PodStatus{Phase: corev1.PodSucceeded}); len((Counting{}).Charge(ended)) > 0 {
		t.Error("a pod that has ended counts")
	}
}
