// Package registration tests `usher webhooks apply` and `remove` against a real API server, which reaches usher through
// its Service: what they change and what they leave, and that no request fails while they work.
package registration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
)

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.Options{Services: true}, start) }

func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if usher, err = cluster.StartUsher(ctx, kubetest.UsherOptions{Replicas: 2}); err != nil {
		return err
	}
	if err := cluster.Apply(ctx, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"admission-webhook": "enabled"}}}`); err != nil {
		return err
	}
	return ready(ctx, true)
}

// ready sets whether the Service has a ready endpoint.
func ready(ctx context.Context, is bool) error {
	return cluster.Apply(ctx, fmt.Sprintf(`{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": {"name": "usher-1", "namespace": "usher", "labels": {"kubernetes.io/service-name": "usher"}},
		"ports": [{"name": "https", "port": 9443}],
		"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": %t}}]}`, is))
}

// run runs `usher webhooks` with arguments, and returns its output and exit code.
func run(ctx context.Context, t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	out, err := usher.Run(ctx, append([]string{"webhooks"}, args...)...)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return out + err.Error(), ended.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out, 0
}

// apply runs `usher webhooks apply --yes`, and fails the test unless it ends with that exit code and its output has the
// texts.
func apply(ctx context.Context, t *testing.T, code int, texts []string, flags ...string) {
	t.Helper()
	args := append([]string{"apply", "--yes", "--kubeconfig=" + cluster.AdminKubeconfig(), "--config=" + usher.PolicyFile(), "--ca-file=" + usher.CAFile}, flags...)
	out, got := run(ctx, t, args...)
	if got != code {
		t.Fatalf("exit code %d, want %d:\n%s", got, code, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("the output lacks %q:\n%s", text, out)
		}
	}
}

// remove unregisters usher.
func remove(ctx context.Context, t *testing.T) string {
	t.Helper()
	out, code := run(ctx, t, "remove", "--yes", "--kubeconfig="+cluster.AdminKubeconfig())
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	return out
}

const (
	mutating   = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/usher"
	validating = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/usher"
	pods       = "/api/v1/namespaces/apps/pods"
)

// entry returns a registered webhook.
func entry(ctx context.Context, t *testing.T, path, name string) kubetest.Object {
	t.Helper()
	configuration, err := cluster.Admin().Get(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range configuration.List("webhooks") {
		if w.String("name") == name {
			return w
		}
	}
	return nil
}

// pod is a pod with a name.
func pod(name string) kubetest.Object {
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": name},
		"spec": kubetest.Object{"containers": []kubetest.Object{{"name": "c", "image": "i"}}}}
}

// create creates a pod as a dry run.
func create(ctx context.Context, name string) (kubetest.Object, error) {
	return cluster.Admin().Create(ctx, pods+"?dryRun=All", pod(name))
}

// called waits until the API server asks usher about pods, or no longer does.
func called(ctx context.Context, t *testing.T, is bool) {
	t.Helper()
	err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		if _, err := create(ctx, "offensive"); (err != nil) != is {
			return fmt.Errorf("called must be %t: %v", is, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
