package usecases

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestRequestsFromLimits: requests follow from limits, also from those that the LimitRanger has set, and keep to the
// LimitRange, which the API server checks afterwards.
func TestRequestsFromLimits(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	namespace(ctx, t, "plain", nil, nil)
	namespace(ctx, t, "tiered", kubetest.Object{"tier": "batch"}, nil)
	const ranges = `{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "containers"}, "spec": {"limits": [{"type": "Container",
		"default": {"memory": "2Gi"}, "min": {"cpu": "300m"}, "maxLimitRequestRatio": {"cpu": "5"}}]}}`
	if err := create(ctx, "/api/v1/namespaces/tiered/limitranges", ranges); err != nil {
		t.Fatal(err)
	}
	use(ctx, t, "samples/policies/requests-from-limits.yaml")
	for _, c := range []struct{ namespace, resources, want string }{
		{"plain", `{"limits": {"cpu": "2", "memory": "1Gi"}}`, "map[limits:map[cpu:2 memory:1Gi] requests:map[cpu:1 memory:1Gi]]"},
		{"plain", `{"requests": {"cpu": "2"}}`, "map[requests:map[cpu:2]]"},
		{"tiered", `{"limits": {"cpu": "3", "memory": "1Gi"}}`, "map[limits:map[cpu:2 memory:1Gi] requests:map[cpu:400m memory:512Mi]]"},
		{"tiered", `{"limits": {"cpu": "1"}}`, "map[limits:map[cpu:4 memory:2Gi] requests:map[cpu:800m memory:1Gi]]"},
	} {
		t.Run(c.namespace+" "+c.resources, func(t *testing.T) {
			path := "/api/v1/namespaces/" + c.namespace + "/pods?dryRun=All"
			pod := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "image": "a", "resources": %s}]}}`, c.resources)
			var got string
			if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
				stored, err := cluster.Admin().Create(ctx, path, pod)
				if err != nil {
					return err
				}
				if got = fmt.Sprint(stored.List("spec", "containers")[0].At("resources")); got != c.want {
					return fmt.Errorf("got %s, want %s", got, c.want) // the API server uses a new registration after a moment
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
}
