// Package monitoring runs deploy/monitoring in a real Prometheus, and has promtool check it and the metrics of usher.
//
//	promtool_test.go   rules, the cases of alerts, and the metrics of a running usher: `make alerts`
//	panels_test.go     the dashboard, with data of usher and of the API server under load
//	load_test.go       the load
//	prometheus_test.go starts Prometheus and asks it
package monitoring

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// folder returns the path of deploy/monitoring.
func folder(t *testing.T) string {
	t.Helper()
	root, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "deploy", "monitoring")
}

// promtool runs promtool in a directory. It must succeed, without complaints.
func promtool(ctx context.Context, t *testing.T, dir, stdin string, args ...string) {
	t.Helper()
	_, file, err := binaries.Prometheus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil || args[1] == "metrics" && len(out) > 0 {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// TestPromtoolRules: Prometheus accepts the rules, and each alert fires when it should, and only then.
func TestPromtoolRules(t *testing.T) {
	ctx := within(t, time.Minute)
	promtool(ctx, t, folder(t), "", "check", "rules", "rules.yaml")
	promtool(ctx, t, folder(t), "", "test", "rules", "rules_test.yaml")
}

// TestPromtoolMetrics: promtool has no complaint about the metrics of an usher with both suites, after all sample
// reviews.
func TestPromtoolMetrics(t *testing.T) {
	ctx := within(t, time.Minute)
	c, err := kubetest.WithoutControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	gates, err := kubetest.ReadFile("samples/feature-gates")
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(folder(t), "..", "..", "samples", "cluster")
	flags := []string{"--cluster-dir=" + state, "--feature-gates=" + strings.TrimSpace(gates)}
	usher, err := c.StartUsher(ctx, kubetest.UsherOptions{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	samples, _ := filepath.Glob(filepath.Join(folder(t), "..", "..", "samples", "reviews", "*", "*.json"))
	others, _ := filepath.Glob(filepath.Join(folder(t), "..", "..", "test", "testdata", "reviews", "*", "*.json"))
	if samples = append(samples, others...); len(samples) < 100 {
		t.Fatalf("only %d sample reviews", len(samples))
	}
	for _, file := range samples {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		post(ctx, t, usher.Replicas[0], filepath.Base(filepath.Dir(file)), body)
	}
	_, metrics, err := usher.Replicas[0].Get(ctx, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usher_quota_reservations", "usher_step_decisions_total", "usher_troubles_total", "usher_gate_enabled"} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
	promtool(ctx, t, ".", metrics, "check", "metrics")
}

// direct posts to a replica itself, as a client that does not check certificates.
var direct = &http.Client{Timeout: 10 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// post posts a review to a replica, and ignores the answer.
func post(ctx context.Context, t *testing.T, r *kubetest.Replica, route string, body []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.Reviews()+"/"+route, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := direct.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}
