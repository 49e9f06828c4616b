package review

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/usherctl/report"
)

// TestRegisteredElsewhere: a webhook runs a route only if it calls the path of the route.
func TestRegisteredElsewhere(t *testing.T) {
	route := admit.Route{Path: "/mutate-pods", For: admit.Pods(admissionv1.Create)}
	pod := &admit.Request{Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Operation: admissionv1.Create, Namespace: "a",
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}}
	for path, want := range map[string]string{"/mutate-pods": "", "/base/mutate-pods": "",
		"/validate-pods": "mutate-pods.usher.dev calls the path /validate-pods, not /mutate-pods"} {
		hooks := registeredAs{report.Webhook{Name: "mutate-pods.usher.dev", Path: path, Called: true}}
		if why := hooks.why(route, pod); why != want || strings.Contains(why, "no webhook") {
			t.Errorf("%s: %q, want %q", path, why, want)
		}
	}
}
