package quota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// The ways to bypass admission: a pod that claims to be a mirror pod, and the subresources that change what a pod
// counts for.

const mirror = "kubernetes.io/config.mirror"

// mirrorPod returns a pod that names its node and claims that a kubelet created it.
func mirrorPod(name, label, cpu, node string) kubetest.Object {
	pod := newPod(name, label, cpu)
	pod["metadata"].(kubetest.Object)["annotations"] = kubetest.Object{mirror: "6d0b"}
	pod["spec"].(kubetest.Object)["nodeName"] = node
	return pod
}

// newNode creates a node and returns the ownerReference by which its kubelet owns mirror pods.
func newNode(ctx context.Context, t *testing.T, name string) kubetest.Object {
	t.Helper()
	node, err := cluster.Admin().Create(ctx, "/api/v1/nodes", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}}`, name))
	stored(t, err)
	cluster.DeleteAfter(t, "/api/v1/nodes/"+name)
	return kubetest.Object{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.String("metadata", "uid"), "controller": true}
}

// TestMirrorPods: the annotation does not bypass the quota; only the kubelet's own mirror pods pass, and they count.
func TestMirrorPods(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "mirrors", "5", "5", "5")
	owner := newNode(ctx, t, "mirrors-node")
	for _, user := range []*kubetest.Client{
		cluster.Admin().Impersonate("tenant", "system:masters"),
		cluster.Admin().Impersonate("system:node:mirrors-node", "system:masters"), // not in the group
	} {
		_, err := user.Create(ctx, podPath("mirrors", ""), mirrorPod("forged", a, "50", "mirrors-node"))
		kubetest.RefusedWith(t, err, "quota mirrors-a (via label)", "cpu requested 50")
	}
	stored(t, createPod(ctx, "mirrors", "honest", a, "3"))
	pod := mirrorPod("static-mirrors-node", a, "2", "mirrors-node")
	pod["metadata"].(kubetest.Object)["ownerReferences"] = []any{owner}
	_, err := cluster.Node("mirrors-node").Create(ctx, podPath("mirrors", ""), pod)
	stored(t, err)
	settled(ctx, t, a, "5")
	kubetest.RefusedWith(t, createPod(ctx, "mirrors", "next", a, "1"), "used 5, limit 5")
}

// TestStatusMoves: pods/status can change labels; a move through it needs room like any other.
func TestStatusMoves(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, b := departments(ctx, t, "relabel", "9", "5", "9")
	stored(t, createPod(ctx, "relabel", "large", b, "4"))
	stored(t, createPod(ctx, "relabel", "small", b, "2"))
	stored(t, createPod(ctx, "relabel", "there", a, "3"))
	settled(ctx, t, "relabel-all", "9")
	move := func(pod, to string) error {
		_, err := cluster.Admin().Patch(ctx, podPath("relabel", pod)+"/status", kubetest.MergePatch, kubetest.Object{
			"metadata": kubetest.Object{"labels": kubetest.Object{prefix + "name": to}}})
		return err
	}
	kubetest.RefusedWith(t, move("large", a), "quota relabel-a (via label)", "requested 4, used 3, limit 5")
	kubetest.RefusedWith(t, move("small", "relabel-all"), "relabel-all", "is a parent of quotas")
	stored(t, move("small", a))
	settled(ctx, t, a, "5")
	_, err := cluster.Admin().Patch(ctx, podPath("relabel", "small")+"/status", kubetest.MergePatch, `{"metadata": {"labels": {"other": "label"}}}`)
	stored(t, err)
}

// TestRevival: a terminated pod has released its room, and may run again only if there is room for it. Kubelets are
// trusted about their own pods.
func TestRevival(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "revival", "5", "5", "5")
	newNode(ctx, t, "revival-node")
	phase := func(by *kubetest.Client, pod, phase string) error {
		_, err := by.Patch(ctx, podPath("revival", pod)+"/status", kubetest.StrategicPatch, kubetest.Object{"status": kubetest.Object{"phase": phase}})
		return err
	}
	names := []string{"one", "two", "three"}
	for _, name := range names {
		pod := newPod(name, a, "4")
		pod["spec"].(kubetest.Object)["nodeName"] = "revival-node"
		_, err := cluster.Admin().Create(ctx, podPath("revival", ""), pod)
		stored(t, err)
		stored(t, phase(cluster.Admin(), name, "Succeeded"))
		settled(ctx, t, a, "0")
	}
	stored(t, phase(cluster.Admin(), "one", "Running"))
	for _, name := range names[1:] { // at once: no replica needs to have seen the first
		kubetest.RefusedWith(t, phase(cluster.Admin(), name, "Running"), "quota revival-a (via label)", "cpu requested 4")
	}
	settled(ctx, t, a, "4")
	stored(t, phase(cluster.Node("revival-node"), "two", "Running"))
	settled(ctx, t, a, "8")
}

// TestBindingMoves: the API server copies the labels of a Binding to the pod.
func TestBindingMoves(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, b := departments(ctx, t, "bound", "5", "5", "5")
	newNode(ctx, t, "bound-node")
	stored(t, createPod(ctx, "bound", "large", "", "40"))
	stored(t, createPod(ctx, "bound", "plain", b, "1"))
	bind := func(pod string, labels kubetest.Object) error {
		_, err := cluster.Admin().Create(ctx, podPath("bound", pod)+"/binding", kubetest.Object{"apiVersion": "v1", "kind": "Binding",
			"metadata": kubetest.Object{"name": pod, "labels": labels}, "target": kubetest.Object{"kind": "Node", "name": "bound-node"}})
		return err
	}
	kubetest.RefusedWith(t, bind("large", kubetest.Object{prefix + "name": a}), "validate-pod-binding.usher.dev", prefix+"name", "the pod itself")
	stored(t, bind("plain", kubetest.Object{"other": "label"}))
	stored(t, bind("large", nil))
	settled(ctx, t, a, "0")
}

// TestResizeWhileDeleted: a terminating pod counts until it is deleted, so it can grow only if there is room.
func TestResizeWhileDeleted(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "going", "5", "5", "5")
	pod := newPod("slow", a, "1")
	newNode(ctx, t, "going-node") // with no kubelet to complete the deletion, and room for the resize
	_, err := cluster.Admin().Patch(ctx, "/api/v1/nodes/going-node/status", kubetest.MergePatch, `{"status": {"allocatable": {"cpu": "64"}, "capacity": {"cpu": "64"}}}`)
	stored(t, err)
	pod["spec"].(kubetest.Object)["nodeName"] = "going-node"
	_, err = cluster.Admin().Create(ctx, podPath("going", ""), pod)
	stored(t, err)
	_, err = cluster.Admin().Do(ctx, "DELETE", podPath("going", "slow"), "application/json", `{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3600}`)
	stored(t, err)
	settled(ctx, t, a, "1")
	_, err = cluster.Admin().Patch(ctx, podPath("going", "slow")+"/resize", kubetest.StrategicPatch,
		`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "40"}}}]}}`)
	kubetest.RefusedWith(t, err, "quota going-a", "requested 40, used 0, limit 5")
}
