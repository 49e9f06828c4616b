package colocation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestUpdatesAreAskedOnlyWhatTheyChange: the class of a running pod cannot change, its labels and finalizers can.
func TestUpdatesAreAskedOnlyWhatTheyChange(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "updates"}}`)
	const pods = "/api/v1/namespaces/updates/pods"
	pod := batchPod("plain")
	pod["metadata"].(kubetest.Object)["labels"] = kubetest.Object{"koordinator.sh/qosClass": "LS"}
	pod["metadata"].(kubetest.Object)["finalizers"] = []string{"example.com/keep"}
	if _, err := cluster.Admin().Create(ctx, pods, pod); err != nil {
		t.Fatal(err)
	}
	patch := func(body string) error {
		_, err := cluster.Admin().Patch(ctx, pods+"/plain", kubetest.MergePatch, body)
		return err
	}
	kubetest.RefusedWith(t, patch(`{"metadata": {"labels": {"koordinator.sh/qosClass": "BE"}}}`), "koordinator.sh/qosClass", "qos-priority")
	if err := patch(`{"metadata": {"labels": {"other": "label"}}}`); err != nil {
		t.Errorf("another label: %v", err)
	}
	if _, err := cluster.Admin().Delete(ctx, pods+"/plain"); err != nil {
		t.Error(err)
	}
	if err := patch(`{"metadata": {"finalizers": null}}`); err != nil {
		t.Errorf("the finalizer cannot be removed: %v", err)
	}
}

// TestResizeDoesNotPassBy: an LSR pod owns whole CPUs, even after an in-place resize.
func TestResizeDoesNotPassBy(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "resizes"}}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "koord-prod"}, "value": 9000}`)
	const pods = "/api/v1/namespaces/resizes/pods"
	resources := kubetest.Object{"requests": kubetest.Object{"cpu": "2", "memory": "1Gi"}, "limits": kubetest.Object{"cpu": "2", "memory": "1Gi"}}
	pod := kubetest.Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": kubetest.Object{"name": "pinned", "labels": kubetest.Object{"koordinator.sh/qosClass": "LSR"}},
		"spec": kubetest.Object{"priorityClassName": "koord-prod",
			"containers": []any{kubetest.Object{"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": resources}}}}
	if _, err := cluster.Admin().Create(ctx, pods, pod); err != nil {
		t.Fatal(err)
	}
	cluster.DeleteAfter(t, pods+"/pinned")
	resize := func(cpu string) error {
		_, err := cluster.Admin().Patch(ctx, pods+"/pinned/resize", kubetest.StrategicPatch, fmt.Sprintf(
			`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": %q}, "limits": {"cpu": %q}}}]}}`, cpu, cpu))
		return err
	}
	kubetest.RefusedWith(t, resize("1500m"), "qos-priority", "1500m")
	if err := resize("3"); err != nil {
		t.Errorf("to a whole number: %v", err)
	}
}

// TestReservations: the stored reservation has the profile's class in its template, and a reservation that no pod could
// use is refused.
func TestReservations(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	cluster.MustApply(ctx, t, batchProfile)
	cluster.MustApply(ctx, t, `{"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile", "metadata": {"name": "for-reservations"},
		"spec": {"selector": {"matchLabels": {"reserve": "batch"}}, "qosClass": "BE", "priorityClassName": "koord-batch"}}`)
	cluster.DeleteAfter(t, profiles+"/batch")
	cluster.DeleteAfter(t, profiles+"/for-reservations")
	reservation := func(name, owners string) string {
		return fmt.Sprintf(`{"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
			"metadata": {"name": %q, "labels": {"reserve": "batch"}}, "spec": {"owners": %s,
			"template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}}}}`, name, owners)
	}
	const owner = `[{"labelSelector": {"matchLabels": {"app": "a"}}}]`
	err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		for range 4 {
			rehearsed, err := cluster.Admin().Create(ctx, reservations+"?dryRun=All", reservation("r", owner))
			if err != nil {
				return err
			}
			if rehearsed.String("spec", "template", "spec", "priorityClassName") != "koord-batch" {
				return fmt.Errorf("the profile is not in force: %v", rehearsed)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := cluster.Admin().Create(ctx, reservations, reservation("r", owner))
	if err != nil {
		t.Fatal(err)
	}
	cluster.DeleteAfter(t, reservations+"/r")
	requests := []any{"spec", "template", "spec", "containers", 0, "resources", "requests"}
	if stored.String(append(requests, "kubernetes.io/batch-cpu")...) != "2k" || stored.At(append(requests, "cpu")...) != nil {
		t.Errorf("the template's requests are %v", stored.At(requests...))
	}
	if stored.String("spec", "ttl") == "" || stored.At("spec", "allocateOnce") != true {
		t.Errorf("defaults: ttl %v, allocateOnce %v", stored.At("spec", "ttl"), stored.At("spec", "allocateOnce"))
	}
	_, err = cluster.Admin().Create(ctx, reservations, reservation("ownerless", `[{}]`))
	kubetest.RefusedWith(t, err, "owners")
}

// TestBinding: a user that is not in the policy cannot bind a pod, except if the pod has the bypass label.
func TestBinding(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	if err := usher.SetPolicy(`{"binding": {"users": ["system:kube-scheduler"], "namespaces": ["bindings"]}}`); err != nil {
		t.Fatal(err)
	}
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bindings"}}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "target"}}`)
	cluster.DeleteAfter(t, "/api/v1/nodes/target")
	const pods = "/api/v1/namespaces/bindings/pods"
	for _, name := range []string{"guarded", "open"} {
		pod := batchPod(name)
		if name == "open" {
			pod["metadata"].(kubetest.Object)["labels"] = kubetest.Object{"koordinator.sh/binding-admission-bypass": ""}
		}
		if _, err := cluster.Admin().Impersonate("system:kube-scheduler", "system:masters").Create(ctx, pods, pod); err != nil {
			t.Fatal(err)
		}
		cluster.DeleteAfter(t, pods+"/"+name)
	}
	bind := func(ctx context.Context, as *kubetest.Client, pod, query string) error {
		_, err := as.Create(ctx, pods+"/"+pod+"/binding"+query, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Binding",
			"metadata": {"name": %q}, "target": {"apiVersion": "v1", "kind": "Node", "name": "target"}}`, pod))
		return err
	}
	mallory := cluster.Admin().Impersonate("mallory", "system:masters")
	err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		for range 4 { // until every replica uses the policy
			if bind(ctx, mallory, "guarded", "?dryRun=All") == nil {
				return fmt.Errorf("mallory binds")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.RefusedWith(t, bind(ctx, mallory, "guarded", ""), "mallory", "binding")
	if err := bind(ctx, mallory, "open", ""); err != nil {
		t.Errorf("the pod that lets everybody: %v", err)
	}
	if err := bind(ctx, cluster.Admin().Impersonate("system:kube-scheduler", "system:masters"), "guarded", ""); err != nil {
		t.Errorf("the scheduler: %v", err)
	}
}
