package colocation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestAPIServerRestartsUnderLoad: while the API server restarts, usher's watches break and are re-established. The
// profile is applied to every admitted pod, and a profile that is written afterwards takes effect.
func TestAPIServerRestartsUnderLoad(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restarts", "labels": {"colocated": "true"}}}`)
	cluster.MustApply(ctx, t, batchProfile)
	cluster.DeleteAfter(t, profiles+"/batch")
	created(ctx, t, "restarts", "before", tier("one"))
	load, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() { createUntil(load, client) })
	}
	for range 2 {
		cluster.APIServer().Kill() // a graceful stop would wait a minute for usher's watches
		if err := cluster.StartAPIServer(ctx); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // of load after the last restart
	stop()
	clients.Wait()
	checkAllColocated(ctx, t)
	if _, err := cluster.Admin().Patch(ctx, profiles+"/batch", kubetest.MergePatch, `{"spec": {"labels": {"tier": "three"}}}`); err != nil {
		t.Fatal(err)
	}
	created(ctx, t, "restarts", "after", tier("three"))
}

// createUntil creates pods one after the other. It ignores errors of the API server while that is unavailable.
func createUntil(ctx context.Context, client int) {
	for i := 0; ctx.Err() == nil; i++ {
		_, _ = cluster.Admin().Create(ctx, "/api/v1/namespaces/restarts/pods", batchPod(fmt.Sprintf("load-%d-%d", client, i)))
	}
}

func checkAllColocated(ctx context.Context, t *testing.T) {
	t.Helper()
	list, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/restarts/pods")
	if err != nil {
		t.Fatal(err)
	}
	pods := list.List("items")
	if len(pods) < 20 {
		t.Errorf("only %d pods were created", len(pods))
	}
	for _, pod := range pods {
		if pod.String("metadata", "labels", "koordinator.sh/qosClass") != "BE" || pod.At("spec", "priority") != float64(5000) {
			t.Errorf("pod %s got in without its profile", pod.String("metadata", "name"))
		}
	}
}
