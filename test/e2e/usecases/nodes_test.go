package usecases

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestNodeSelector runs the walk-through of docs/node-selectors.md: the annotations of the Namespace, what is allowed,
// and an annotation that cannot be read. On UPDATE, a toleration that is not allowed cannot be added.
func TestNodeSelector(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	namespace(ctx, t, "shop", kubetest.Object{"team": "web"}, nil)
	annotate(ctx, t, "shop", "node-selector", "pool=web")
	annotate(ctx, t, "shop", "defaultTolerations", `[{"key": "pool", "operator": "Equal", "value": "web", "effect": "NoSchedule"}]`)
	use(ctx, t, "samples/policies/node-selector.yaml")
	manifests := manifestsOf(t, "samples/manifests/node-selector.yaml")
	const pods = "/api/v1/namespaces/shop/pods"
	awaitRefusal(ctx, t, pods, manifests[1]) // usher has the policy, and has seen the annotation
	cluster.DeleteAfter(t, pods+"/placed")

	if err := create(ctx, pods, manifests[0]); err != nil {
		t.Fatal(err)
	}
	pod, err := cluster.Admin().Get(ctx, pods+"/placed")
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.String("spec", "nodeSelector", "pool"); got != "web" {
		t.Errorf("nodeSelector.pool is %q", got)
	}
	var keys []string
	for _, toleration := range pod.List("spec", "tolerations") {
		keys = append(keys, toleration.String("key"))
	}
	const want = "[node.kubernetes.io/not-ready node.kubernetes.io/unreachable pool node.kubernetes.io/memory-pressure]"
	if got := fmt.Sprint(keys); got != want {
		t.Errorf("tolerations of %s, want %s", got, want)
	}
	kubetest.RefusedWith(t, create(ctx, pods, manifests[1]), `node-selector: spec.nodeSelector[pool]`, `"batch" conflicts with pool=web`)
	kubetest.RefusedWith(t, create(ctx, pods, manifests[2]), "node-selector-limits: spec.nodeSelector[disk]", "spec.nodeSelector[zone]")
	kubetest.RefusedWith(t, create(ctx, pods, manifests[3]), "spec.tolerations[0]", "every taint")
	checkTolerationUpdates(ctx, t, pods+"/placed")

	annotate(ctx, t, "shop", "node-selector", "pool")
	awaitText(ctx, t, pods, manifests[0], `annotation scheduler.alpha.kubernetes.io/node-selector of the namespace is "pool", which cannot be read`)
	annotate(ctx, t, "shop", "node-selector", "")
	annotate(ctx, t, "shop", "tolerationsWhitelist", "")
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error { return create(ctx, pods+"?dryRun=All", manifests[3]) }); err != nil {
		t.Errorf("empty annotations allow everything: %v", err)
	}
}

// checkTolerationUpdates: an update may add only tolerations that are allowed.
func checkTolerationUpdates(ctx context.Context, t *testing.T, pod string) {
	t.Helper()
	add := func(toleration string) error {
		_, err := cluster.Admin().Patch(ctx, pod, "application/json-patch+json", `[{"op": "add", "path": "/spec/tolerations/-", "value": `+toleration+`}]`)
		return err
	}
	kubetest.RefusedWith(t, add(`{"key": "gpu", "operator": "Exists"}`), "spec.tolerations[4]", "gpu is not covered")
	if err := add(`{"key": "pool", "operator": "Equal", "value": "web", "effect": "NoExecute"}`); err != nil {
		t.Error(err)
	}
}

// annotate sets an annotation of the plugins on a namespace.
func annotate(ctx context.Context, t *testing.T, namespace, key, value string) {
	t.Helper()
	if _, err := cluster.Admin().Patch(ctx, "/api/v1/namespaces/"+namespace, kubetest.MergePatch,
		fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, "scheduler.alpha.kubernetes.io/"+key, value)); err != nil {
		t.Fatal(err)
	}
}
