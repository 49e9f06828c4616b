package examine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestRefused: what the API server refuses has not passed, neither by doctor -f nor by a canary.
func TestRefused(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	apply(t, cluster.Apply(ctx, `{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "apps"}}`))
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	apply(t, os.WriteFile(pod, []byte("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: apps}, spec: {containers: [{name: a, image: registry.example.com/a:1}]}}"), 0o600))
	s, err := serve(ctx, "refusing", certificate{})
	apply(t, err)
	w := s.webhook("refusing")
	w["rules"] = rules("", "v1", "pods", "CREATE", "Namespaced")
	w["clientConfig"].(kubetest.Object)["caBundle"] = healthy.ca
	apply(t, created(ctx, registrations+"validatingwebhookconfigurations", configuration("Validating", "refusing", w)))
	cluster.DeleteAfter(t, registrations+"validatingwebhookconfigurations/refusing")
	out, _ := cluster.RunProgram(ctx, binary, "doctor", "-f", pod, "--kubeconfig="+cluster.AdminKubeconfig())
	for _, text := range []string{"refused  CREATE Pod apps/a", "ca-bundle-mismatch", "taken to be of the user", "system:masters", "what admission policies refuse"} {
		if !strings.Contains(out, text) {
			t.Errorf("it does not say %q: %s", text, out)
		}
	}
	apply(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
		if _, code, out := canary(ctx, t, "--yes", "-n", "apps"); code == 0 || strings.Contains(out, `"passed"`) || !strings.Contains(out, "refusing.foreign.example") {
			return errors.New(out)
		}
		return nil
	}))
}
