package usecases

import (
	"context"
	"errors"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestPodSecuritySeesWhatUsherAdds: a policy of usher cannot give a namespace what its Pod Security level forbids. The API
// server judges the pod as the webhooks have left it.
func TestPodSecuritySeesWhatUsherAdds(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	namespace(ctx, t, "secured", kubetest.Object{"pod-security.kubernetes.io/enforce": "baseline"}, nil)
	namespace(ctx, t, "unsecured", nil, nil)
	useText(ctx, t, `sidecars:
- name: powerful
  containers: [{name: powerful, image: registry.example.com/a:1, securityContext: {privileged: true}}]
  volumes: [{name: host, hostPath: {path: /}}]
`)
	const pod = `{"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "a", "image": "registry.example.com/a:1"}]}}`
	pods := func(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods?dryRun=All" }
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error { // until the registration is used
		stored, err := cluster.Admin().Create(ctx, pods("unsecured"), pod)
		if err == nil && len(stored.List("spec", "containers")) != 2 {
			err = errors.New("the sidecar is not injected")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	kubetest.RefusedWith(t, create(ctx, pods("secured"), pod), `violates PodSecurity "baseline:latest"`, "privileged", "hostPath")
}
