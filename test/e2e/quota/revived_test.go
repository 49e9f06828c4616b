package quota

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestRevivedUnchecked: a pod that had ended, and that somebody reports as running where usher is not called, is reported
// by every replica that saw it end, within ten seconds, until it is gone.
func TestRevivedUnchecked(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "revived", "2", "2", "2")
	write := func(path, patch string) {
		t.Helper()
		_, err := cluster.Admin().Patch(ctx, path, kubetest.MergePatch, patch)
		stored(t, err)
	}
	stored(t, createPod(ctx, "revived", "p", a, "2"))
	write(podPath("revived", "p")+"/status", `{"status": {"phase": "Succeeded"}}`)
	settled(ctx, t, a, "0")
	stored(t, createPod(ctx, "revived", "next", a, "2"))
	settled(ctx, t, a, "2")
	write("/api/v1/namespaces/revived", `{"metadata": {"labels": {"usher.dev/exempt": "true"}}}`)
	time.Sleep(time.Second) // the API server's own watch
	write(podPath("revived", "p")+"/status", `{"status": {"phase": "Running"}}`)
	began := time.Now()
	reported(ctx, t, 1)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("reported after %s", took)
	}
	deletePod(ctx, t, "revived", "p")
	reported(ctx, t, 0)
}

// reported waits until every replica reports a number of revived pods.
func reported(ctx context.Context, t *testing.T, want int) {
	t.Helper()
	eventually(ctx, t, func(ctx context.Context) error {
		for _, r := range usher.Replicas {
			_, metrics, err := r.Get(ctx, "/metrics")
			if err != nil {
				return err
			}
			if line := fmt.Sprintf("\nusher_quota_revived_pods %d\n", want); !strings.Contains(metrics, line) {
				return fmt.Errorf("%s does not report %d revived pods", r.Name, want)
			}
		}
		return nil
	})
}
