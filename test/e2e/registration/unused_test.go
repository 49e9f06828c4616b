package registration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestARouteThatIsOffAllows: gates are switched off while the registration is still the old one. Pods are created, with
// a warning, and counted.
func TestARouteThatIsOffAllows(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	remove(ctx, t)
	gated, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: "usher-gated", // it takes the place of the other behind the Service
		Flags: []string{"--feature-gates=PodMutatingWebhook=false,PodValidatingWebhook=false"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gated.Stop)
	out, err := gated.Run(ctx, "webhooks", "apply", "--yes", "--kubeconfig="+cluster.AdminKubeconfig(), "--suite=core,colocation", "--ca-file="+gated.CAFile)
	if err != nil {
		t.Fatal(out, err)
	}
	called(ctx, t, true)
	var answer *kubetest.Response
	for i := range 3 {
		if answer, err = cluster.Admin().Do(ctx, "POST", pods+"?dryRun=All", "application/json", pod("harmless")); err != nil || answer.Err() != nil {
			t.Fatalf("pod %d: %v %v", i, err, answer.Err())
		}
	}
	for _, path := range []string{"/mutate-pod ", "/validate-pod "} {
		if !slices.ContainsFunc(answer.Warnings, func(w string) bool {
			return strings.Contains(w, path+"is switched off by feature gates; nothing was checked")
		}) {
			t.Errorf("no warning about %s: %q", path, answer.Warnings)
		}
	}
	_, metrics, err := gated.Replicas[0].Get(ctx, "/metrics")
	if err != nil || !strings.Contains(metrics, "\nusher_route_off_total{route=\"/validate-pod\"} ") {
		t.Errorf("it is not counted: %v", err)
	}
	log := gated.Replicas[0].Process().Log()
	if n := strings.Count(log, "/validate-pod is switched off by feature gates, but an API server still calls it"); n != 1 {
		t.Errorf("it is logged %d times, want 1", n)
	}
}
