package usecases

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestSidecarsAreTried: with the rights of deploy/components/watching, usher refuses a new policy whose sidecars the API server does not
// store in any pod, and only that: neither without the right to ask, nor for what Pod Security says of usher's own namespace, which the API
// server asks after it has validated the pod. The policy at the start is not refused.
func TestSidecarsAreTried(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	replica := usher.Replicas[0]
	log := func() string { return replica.Process().Log() }
	eventually := func(what string, holds func() bool) {
		t.Helper()
		if err := kubetest.Eventually(ctx, func(context.Context) error {
			if !holds() {
				return fmt.Errorf("not yet: %s", what)
			}
			return nil
		}); err != nil {
			t.Fatal(err, replica.Process().Tail(20))
		}
	}
	sidecar := func(field string) string {
		return "sidecars: [{name: a, containers: [{name: side, image: registry.example.com/a:1, " + field + "}]}]"
	}
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "usher", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": "usher"},
		"spec": {"limits": [{"type": "Container", "default": {"memory": "1Mi"}}]}}`)

	useText(ctx, t, sidecar("securityContext: {privileged: true}, resources: {requests: {memory: 1Gi}}"))
	eventually("the API server has not said that usher may not try", func() bool {
		return strings.Contains(log(), `sidecars not validated: pods is forbidden: User \"system:serviceaccount:usher:usher\" cannot create`)
	})
	for _, file := range []string{"role", "rolebinding"} {
		if out, err := cluster.Kubectl(ctx, "apply", "-n", "usher", "-f", "deploy/components/watching/"+file+".yaml"); err != nil {
			t.Fatal(out, err)
		}
	}
	eventually("they are validated", func() bool { return metric(ctx, t, "validated") == "1" })
	_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/usher/pods?dryRun=All",
		`{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "a:1", "securityContext": {"privileged": true}}]}}`)
	kubetest.RefusedWith(t, err, `pods "p" is forbidden: violates PodSecurity "restricted:latest"`)

	if err := usher.SetPolicy(sidecar("securityContext: {privileged: true}, imagePullPolicy: always")); err != nil {
		t.Fatal(err)
	}
	eventually("the policy is refused", func() bool { return metric(ctx, t, "current") == "0" })
	if text := log(); !strings.Contains(text, `sidecars[0].containers[0].imagePullPolicy: Unsupported value: \"always\"`) {
		t.Error(replica.Process().Tail(5))
	}
	if metric(ctx, t, "validated") != "1" {
		t.Error("the policy in force is not the valid one")
	}
	if err := replica.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	eventually("the first policy is judged", func() bool { return strings.Contains(log(), "refuses pods with the sidecars of the policy in force") })
	if metric(ctx, t, "current") != "1" || metric(ctx, t, "validated") != "0" {
		t.Error("the first policy is not in force, or validated")
	}
	useText(ctx, t, "{}") // for the other tests
}

// metric returns the value of usher_policy_current, or of usher_policy_sidecars_validated.
func metric(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	_, text, err := usher.Replicas[0].Get(ctx, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	full := map[string]string{"current": "usher_policy_current", "validated": "usher_policy_sidecars_validated"}[name]
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, full+" "); found {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no metric %s", full)
	return ""
}
