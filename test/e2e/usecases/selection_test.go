package usecases

import (
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestSelectionByNamespace: sidecars and image rules of samples/policy.yaml hold in the namespaces that their
// namespaceSelectors select, and in no others.
func TestSelectionByNamespace(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	namespace(ctx, t, "selected", kubetest.Object{"mesh": "on", "stage": "production"}, nil)
	namespace(ctx, t, "plain", nil, nil)
	use(ctx, t, "samples/policy.yaml")
	pod := func(image string) string {
		return fmt.Sprintf(`{"metadata": {"name": "a", "labels": {"acme.com/team": "a"}}, "spec": {"containers": [{"name": "a", "image": %q}]}}`, image)
	}
	const dryRun = "?dryRun=All"
	for name, injected := range map[string]int{"selected": 1, "plain": 0} {
		pods := "/api/v1/namespaces/" + name + "/pods" + dryRun
		stored, err := cluster.Admin().Create(ctx, pods, pod("registry.example.com/team/app:1"))
		if err != nil {
			t.Fatal(err)
		}
		if got := stored.List("spec", "initContainers"); len(got) != injected {
			t.Errorf("%s: the init containers are %v", name, got)
		}
		_, err = cluster.Admin().Create(ctx, pods, pod("quay.io/team/app:1"))
		if injected == 0 && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if injected > 0 {
			kubetest.RefusedWith(t, err, "image-rules: spec.containers[0].image", "rule production: the repository quay.io/team/app is not allowed")
		}
	}
}
