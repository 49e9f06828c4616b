package colocation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const batchProfile = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: koord-batch}
value: 5000
preemptionPolicy: PreemptLowerPriority
---
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: batch}
spec:
  namespaceSelector: {matchLabels: {colocated: "true"}}
  selector: {matchLabels: {batch: "true"}}
  labels: {tier: one}
  qosClass: BE
  priorityClassName: koord-batch
  koordinatorPriority: 1111
  schedulerName: koord-scheduler
  patch:
    metadata: {annotations: {patched: "true"}}
`

// batchPod requests the resources that the profile batch translates.
func batchPod(name string) kubetest.Object {
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": kubetest.Object{"name": name, "labels": kubetest.Object{"batch": "true"}},
		"spec": kubetest.Object{"containers": []any{kubetest.Object{"name": "c", "image": "registry.k8s.io/pause:3.10",
			"resources": kubetest.Object{"requests": kubetest.Object{"cpu": "500m", "memory": "1Gi"}, "limits": kubetest.Object{"cpu": "1", "memory": "2Gi"}}}}}}
}

// created creates pods until the profile that was just applied has reached every replica, and returns the stored pod.
func created(ctx context.Context, t *testing.T, namespace, name string, arrived func(pod kubetest.Object) bool) (pod kubetest.Object) {
	t.Helper()
	pods := "/api/v1/namespaces/" + namespace + "/pods"
	err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		for range 4 { // two replicas
			rehearsed, err := cluster.Admin().Create(ctx, pods+"?dryRun=All", batchPod(name))
			if err != nil {
				return err
			}
			if !arrived(rehearsed) {
				return fmt.Errorf("the profile is not in force: labels %v", rehearsed.At("metadata", "labels"))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster.DeleteAfter(t, pods+"/"+name)
	if _, err := cluster.Admin().Create(ctx, pods, batchPod(name)); err != nil {
		t.Fatal(err)
	}
	stored, err := cluster.Admin().Get(ctx, pods+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func tier(want string) func(kubetest.Object) bool {
	return func(pod kubetest.Object) bool { return pod.String("metadata", "labels", "tier") == want }
}

// TestProfile: the Priority plugin accepts the profile's values, the stored pod is a batch pod, and a changed profile
// takes effect.
func TestProfile(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "jobs", "labels": {"colocated": "true"}}}`)
	cluster.MustApply(ctx, t, batchProfile)
	cluster.DeleteAfter(t, profiles+"/batch")
	pod := created(ctx, t, "jobs", "crunch", tier("one"))
	requests := []any{"spec", "containers", 0, "resources", "requests"}
	for _, c := range []struct {
		path []any
		want any
	}{
		{[]any{"metadata", "labels", "koordinator.sh/qosClass"}, "BE"},
		{[]any{"metadata", "labels", "koordinator.sh/priority"}, "1111"},
		{[]any{"metadata", "annotations", "patched"}, "true"},
		{[]any{"spec", "schedulerName"}, "koord-scheduler"},
		{[]any{"spec", "priorityClassName"}, "koord-batch"},
		{[]any{"spec", "priority"}, float64(5000)},
		{append(requests, "kubernetes.io/batch-cpu"), "500"},
		{append(requests, "kubernetes.io/batch-memory"), "1Gi"},
		{append(requests, "cpu"), nil},
		{[]any{"spec", "containers", 0, "resources", "limits", "kubernetes.io/batch-cpu"}, "1k"},
	} {
		if got := pod.At(c.path...); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v is %v, want %v", c.path, got, c.want)
		}
	}
	if pod.String("metadata", "annotations", "node.koordinator.sh/extended-resource-spec") == "" {
		t.Error("the node agent's annotation is missing")
	}
	if _, err := cluster.Admin().Patch(ctx, profiles+"/batch", kubetest.MergePatch, `{"spec": {"labels": {"tier": "two"}}}`); err != nil {
		t.Fatal(err)
	}
	created(ctx, t, "jobs", "later", tier("two"))
}

// TestNamespaceAndPodInOneApply: the pod is created before the watch has shown its namespace and must wait for it:
// usher returns 503 and the API server retries; usher never guesses.
func TestNamespaceAndPodInOneApply(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "warm", "labels": {"colocated": "true"}}}`)
	cluster.MustApply(ctx, t, batchProfile)
	cluster.DeleteAfter(t, profiles+"/batch")
	created(ctx, t, "warm", "first", tier("one"))
	for i := range 10 {
		namespace := fmt.Sprint("fresh-", i)
		cluster.MustApply(ctx, t, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %s, labels: {colocated: "true"}}
---
apiVersion: v1
kind: Pod
metadata: {name: at-once, namespace: %s, labels: {batch: "true"}}
spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 100m}}}]}
`, namespace, namespace))
		pod, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/"+namespace+"/pods/at-once")
		if err != nil {
			t.Fatal(err)
		}
		if got := pod.String("metadata", "labels", "koordinator.sh/qosClass"); got != "BE" {
			t.Errorf("%s: QoS %q: decided before the namespace was known", namespace, got)
		}
	}
}

// TestBadProfiles: the rules of the CRD and of usher refuse invalid profiles, and pods are refused with the name of a
// missing class.
func TestBadProfiles(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	for _, c := range []struct{ name, spec, says string }{
		{"bad-operator", `{"selector": {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}}`, "operator"},
		{"bad-probability", `{"probability": 101}`, "probability"},
		{"bad-patch", `{"patch": {"spec": {"containers": {}}}}`, "spec.patch"},
		{"bad-key", `{"labels": {"not a key": "v"}}`, "labels"},
	} {
		object := fmt.Sprintf(`{"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile", "metadata": {"name": %q}, "spec": %s}`, c.name, c.spec)
		_, err := cluster.Admin().Create(ctx, profiles, object)
		cluster.DeleteAfter(t, profiles+"/"+c.name)
		kubetest.RefusedWith(t, err, c.says)
	}
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "classless"}}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile", "metadata": {"name": "classless"},
		"spec": {"selector": {"matchLabels": {"batch": "true"}}, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "classless"}}, "priorityClassName": "nowhere"}}`)
	cluster.DeleteAfter(t, profiles+"/classless")
	var refusal error
	_ = kubetest.Eventually(ctx, func(ctx context.Context) error {
		_, refusal = cluster.Admin().Create(ctx, "/api/v1/namespaces/classless/pods?dryRun=All", batchPod("p"))
		if refusal == nil {
			return fmt.Errorf("the profile is not in force")
		}
		return nil
	})
	kubetest.RefusedWith(t, refusal, "nowhere", "classless")
}
