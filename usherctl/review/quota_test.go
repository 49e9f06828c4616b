package review

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// TestPlanned: each object is as many pods as it has at a time, with the requests that follow from limits, whether it is reviewed itself or not.
func TestPlanned(t *testing.T) {
	const template = `template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]}}`
	for _, c := range []struct{ kind, version, spec, want string }{
		{"Deployment", "apps/v1", `{replicas: 3, ` + template + `}`, "3 2"},
		{"Deployment", "apps/v1", `{` + template + `}`, "1 2"},
		{"Deployment", "apps/v1", `{replicas: null, ` + template + `}`, "1 2"},
		{"Deployment", "apps/v1", `{replicas: 0, ` + template + `}`, ""},
		{"Deployment", "apps/v1", `{replicas: "3", ` + template + `}`, "spec.replicas is no number of pods"},
		{"Deployment", "apps/v1", `{replicas: -3, ` + template + `}`, "spec.replicas is no number of pods"},
		{"StatefulSet", "apps/v1", `{replicas: 2, ` + template + `}`, "2 2"},
		{"DaemonSet", "apps/v1", `{` + template + `}`, "DaemonSet x has a pod on each node that it selects"},
		{"Job", "batch/v1", `{parallelism: 5, completions: 4, ` + template + `}`, "4 2"},
		{"Job", "batch/v1", `{completions: 4, ` + template + `}`, "1 2"},
		{"CronJob", "batch/v1", `{schedule: "* * * * *", jobTemplate: {spec: {parallelism: 2, ` + template + `}}}`, "2 2"},
		{"Pod", "v1", `{containers: [{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}`, "1 1"},
		{"Rollout", "argoproj.io/v1alpha1", `{replicas: 3, ` + template + `}`, "how many pods Rollout x has is not known"},
		{"Job", "batch.volcano.sh/v1alpha1", `{parallelism: 5, ` + template + `}`, "how many pods Job x has is not known"},
		{"Service", "v1", `{}`, ""},
	} {
		text := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: x}, spec: %s}", c.version, c.kind, c.spec)
		for _, routed := range []bool{false, true} {
			if got := planOf(text, routed); got != c.want {
				t.Errorf("%s, reviewed itself: %t: %q, want %q", text, routed, got, c.want)
			}
		}
	}
	existing := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, uid: u}, spec: {` + template + `}}`
	if got := planOf(existing, false); got != "" {
		t.Errorf("a Deployment that the cluster has: %q", got)
	}
}

// planOf returns how many pods are planned for a manifest, and what the first requests, or why that is not known.
func planOf(text string, routed bool) (of string) {
	plan, documents := planned{}, requests.Existing(requests.Read("test", strings.NewReader(text)))
	routes := func(*unstructured.Unstructured) bool { return routed }
	for _, d := range requests.WithPods(documents, []string{"spec.template"}, requests.Options{}, routes) {
		plan.add(d, report.Report{Subject: report.Subject{Kind: objectOf(d.JSON).GetKind(), Operation: "CREATE"}, After: d.JSON})
	}
	for _, pods := range plan[""] {
		if pods.Unknown != "" {
			of += pods.Unknown
			continue
		}
		of += fmt.Sprintf("%d %s", pods.Count, pods.Pod.Spec.Containers[0].Resources.Requests.Cpu())
	}
	return of
}
