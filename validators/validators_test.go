package validators

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/mutators/placement"
)

// TestRequestsOfPolicies: the requests that the routes are for under a policy.
func TestRequestsOfPolicies(t *testing.T) {
	ask := admit.Questions{}
	for _, c := range []struct {
		name    string
		section any
		want    []string // of the pods, workloads and Namespaces
	}{
		{"nothing", nil, []string{"pods [CREATE]"}},
		{"names", &Names{Denied: []string{"x"}}, []string{"pods [CREATE]"}},
		{"label rules", LabelRules{{}}, []string{"pods [CREATE UPDATE]"}},
		{"label rules for workloads", LabelRules{{Workloads: true}}, []string{"pods [CREATE UPDATE]",
			"deployments [CREATE UPDATE]", "statefulsets [CREATE UPDATE]", "daemonsets [CREATE UPDATE]", "jobs [CREATE UPDATE]", "cronjobs [CREATE UPDATE]"}},
		{"image rules", ImageRules{{}}, []string{"pods [CREATE UPDATE]", "pods/ephemeralcontainers [UPDATE]"}},
		{"sidecars", injection.Sidecars{{}}, []string{"pods [CREATE UPDATE]"}},
		{"a node selector", &placement.NodeSelector{}, []string{"pods [CREATE UPDATE]"}},
		{"restrictions", Restrictions{{}}, []string{"pods [CREATE]", "namespaces,namespaces/status,namespaces/finalize [UPDATE]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := config.PolicyOf(&WorkloadPolicy{Mode: admit.Off})
			if c.section != nil {
				policy = config.PolicyOf(&WorkloadPolicy{Mode: admit.Off}, c.section)
			}
			var got []string
			for _, m := range slices.Concat(admit.Validate(admit.AsPod, Pods(policy, ask)).For(), admit.Validate(admit.AsWorkload, Workloads(policy, ask)).For(),
				admit.Validate(admit.AsMeta, Namespaces(policy, labels.Everything())).For()) {
				got = append(got, fmt.Sprintf("%s %s", strings.Join(m.Resources, ","), m.Operations))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestOtherRequestsOfPods: only image rules judge ephemeral containers, and no step the deletion of a pod.
func TestOtherRequestsOfPods(t *testing.T) {
	for _, step := range Pods(config.PolicyOf(), admit.Questions{}) {
		for _, c := range []struct {
			operation   admissionv1.Operation
			subresource string
			want        bool
		}{
			{admissionv1.Create, "", true},
			{admissionv1.Update, "ephemeralcontainers", step.Name == "image-rules"},
			{admissionv1.Update, "status", false},
			{admissionv1.Delete, "", false},
		} {
			req := &admit.Request{Operation: c.operation, SubResource: c.subresource, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}}
			if got := slices.ContainsFunc(step.For, func(m admit.Match) bool { return m.Covers(req) }); got != c.want {
				t.Errorf("%s judges %s of %s: %v, want %v", step.Name, c.operation, req.ResourceName(), got, c.want)
			}
		}
	}
}
