package colocation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const bypass = "koordinator.sh/binding-admission-bypass"

// protect creates a namespace in which only kube-scheduler may bind pods, and a node of the same name, and waits until
// all replicas enforce this.
func protect(ctx context.Context, t *testing.T, namespace string) (mallory, scheduler *kubetest.Client) {
	t.Helper()
	if err := usher.SetPolicy(fmt.Sprintf(`{"binding": {"users": ["system:kube-scheduler"], "namespaces": [%q]}}`, namespace)); err != nil {
		t.Fatal(err)
	}
	cluster.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, namespace))
	newNode(ctx, t, namespace, `{}`)
	mallory = cluster.Admin().Impersonate("mallory", "system:masters")
	pods := "/api/v1/namespaces/" + namespace + "/pods"
	if _, err := mallory.Create(ctx, pods, batchPod("probe")); err != nil {
		t.Fatal(err)
	}
	cluster.DeleteAfter(t, pods+"/probe")
	err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		for range 4 {
			if bindTo(ctx, mallory, pods, "probe", namespace, "?dryRun=All") == nil {
				return fmt.Errorf("the policy is not in force")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return mallory, cluster.Admin().Impersonate("system:kube-scheduler", "system:masters")
}

func bindTo(ctx context.Context, by *kubetest.Client, pods, pod, node, query string) error {
	_, err := by.Create(ctx, pods+"/"+pod+"/binding"+query, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Binding",
		"metadata": {"name": %q}, "target": {"apiVersion": "v1", "kind": "Node", "name": %q}}`, pod, node))
	return err
}

// boundPod returns a pod that names its node.
func boundPod(name, node string) kubetest.Object {
	pod := batchPod(name)
	pod["spec"].(kubetest.Object)["nodeName"] = node
	return pod
}

func bypassed(pod kubetest.Object) kubetest.Object {
	pod["metadata"].(kubetest.Object)["labels"] = kubetest.Object{bypass: ""}
	return pod
}

// TestNodeNameIsABinding: a pod that is created with its node counts as bound by its creator; the kubelet's mirror pods
// are exempt.
func TestNodeNameIsABinding(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	mallory, scheduler := protect(ctx, t, "node-names")
	const pods = "/api/v1/namespaces/node-names/pods"
	create := func(by *kubetest.Client, pod kubetest.Object) error {
		_, err := by.Create(ctx, pods, pod)
		cluster.DeleteAfter(t, pods+"/"+pod["metadata"].(kubetest.Object)["name"].(string))
		return err
	}
	forged := boundPod("forged", "node-names")
	forged["metadata"].(kubetest.Object)["annotations"] = kubetest.Object{"kubernetes.io/config.mirror": "6d0b"}
	for _, pod := range []kubetest.Object{boundPod("bound", "node-names"), bypassed(boundPod("bypassed", "node-names")), forged} {
		kubetest.RefusedWith(t, create(mallory, pod), "node-name: spec.nodeName", "mallory", "node-names")
	}
	if err := create(mallory, batchPod("unbound")); err != nil {
		t.Errorf("without a node: %v", err)
	}
	if err := create(scheduler, boundPod("placed", "node-names")); err != nil {
		t.Errorf("who may bind: %v", err)
	}
	node, err := cluster.Admin().Get(ctx, "/api/v1/nodes/node-names")
	if err != nil {
		t.Fatal(err)
	}
	static := boundPod("static", "node-names")
	static["metadata"].(kubetest.Object)["annotations"] = kubetest.Object{"kubernetes.io/config.mirror": "6d0b"}
	static["metadata"].(kubetest.Object)["ownerReferences"] = []any{kubetest.Object{"apiVersion": "v1", "kind": "Node", "name": "node-names",
		"uid": node.String("metadata", "uid"), "controller": true}}
	if err := create(cluster.Node("node-names"), static); err != nil {
		t.Errorf("the kubelet's mirror pod: %v", err)
	}
}

// TestBypassIsNotTheOwners: only users that may bind can set the bypass label, at creation and later, through pods and
// pods/status.
func TestBypassIsNotTheOwners(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	mallory, scheduler := protect(ctx, t, "bypasses")
	const pods = "/api/v1/namespaces/bypasses/pods"
	_, err := mallory.Create(ctx, pods, bypassed(batchPod("own")))
	kubetest.RefusedWith(t, err, "binding-bypass: metadata.labels["+bypass+"]", "mallory")
	if _, err := mallory.Create(ctx, pods, batchPod("own")); err != nil {
		t.Fatal(err)
	}
	cluster.DeleteAfter(t, pods+"/own")
	label := func(by *kubetest.Client, path, value string) error {
		_, err := by.Patch(ctx, pods+"/own"+path, kubetest.MergePatch, fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, bypass, value))
		return err
	}
	bind := func(query string) error { return bindTo(ctx, mallory, pods, "own", "bypasses", query) }
	kubetest.RefusedWith(t, label(mallory, "", `"true"`), "binding-bypass", "mallory")
	kubetest.RefusedWith(t, label(mallory, "/status", `"true"`), "validate-pod-status.usher.dev", "binding-bypass", "mallory")
	kubetest.RefusedWith(t, bind("?dryRun=All"), "mallory", "binding")
	if err := label(scheduler, "", `"true"`); err != nil {
		t.Fatalf("who may bind: %v", err)
	}
	if err := label(mallory, "", `null`); err != nil {
		t.Errorf("it cannot be removed: %v", err)
	}
	if err := label(scheduler, "/status", `"true"`); err != nil {
		t.Fatalf("who may bind: %v", err)
	}
	if err := kubetest.Eventually(ctx, func(context.Context) error { return bind("") }); err != nil { // as soon as the watch shows the label
		t.Errorf("the pod that everybody may bind: %v", err)
	}
}

// TestBindingWhileUsherIsAway: by default bindings pass while usher is unavailable; with --fail-closed they are
// refused.
func TestBindingWhileUsherIsAway(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	mallory, _ := protect(ctx, t, "aways")
	const pods = "/api/v1/namespaces/aways/pods"
	for _, name := range []string{"open", "closed"} {
		if _, err := mallory.Create(ctx, pods, batchPod(name)); err != nil {
			t.Fatal(err)
		}
		cluster.DeleteAfter(t, pods+"/"+name)
	}
	bind := func(pod, query string) error { return bindTo(ctx, mallory, pods, pod, "aways", query) }
	status := func() error { // as a kubelet
		_, err := cluster.Node("aways").Patch(ctx, pods+"/open/status", kubetest.StrategicPatch, `{"status": {"phase": "Running"}}`)
		return err
	}
	gates, err := featureGates()
	if err != nil {
		t.Fatal(err)
	}
	kubetest.RefusedWith(t, bind("open", ""), "mallory")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := register(ctx, gates); err != nil { // the configurations of the other tests
			t.Error(err)
		}
	})
	usher.KillAll(ctx, t)
	if err := bind("open", ""); err != nil {
		t.Errorf("by default nobody is kept from binding while usher is away: %v", err)
	}
	if err := reconfigure(ctx, t, gates, "--fail-closed=/validate-pod-binding,/validate-pod-status"); err != nil {
		t.Fatal(err)
	}
	err = kubetest.Eventually(ctx, func(ctx context.Context) error {
		if bind("closed", "?dryRun=All") == nil {
			return fmt.Errorf("the configuration is not in force")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.RefusedWith(t, bind("closed", ""), `failed calling webhook "validate-pod-binding.usher.dev"`)
	if err := status(); err != nil {
		t.Errorf("a kubelet's status write failed: %v", err)
	}
}

// reconfigure applies the output of `usher webhooks` with further flags.
func reconfigure(ctx context.Context, t *testing.T, gates string, flags ...string) error {
	t.Helper()
	configurations, err := usher.Run(ctx, append([]string{"webhooks", "--suite=core,colocation", "--feature-gates=" + gates,
		"--service=usher/usher", "--url=" + usher.URL, "--ca-file=" + usher.CAFile}, flags...)...)
	if err != nil {
		return err
	}
	return cluster.Apply(ctx, configurations)
}
