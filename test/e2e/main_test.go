package e2e

import (
	"context"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

// All tests share one control plane and one usher. A test uses its own names, and restores what it changes.
var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
)

func TestMain(m *testing.M) {
	kubetest.Main(m, kubetest.Options{APIServerFlags: []string{"--feature-gates=ImageVolume=true"}}, start) // the default since Kubernetes 1.35
}

// start does what deploy/deploy.sh does: it creates what the service needs, the service, and last the webhook
// configurations.
func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if usher, err = cluster.StartUsher(ctx, kubetest.UsherOptions{Replicas: 2}); err != nil {
		return err
	}
	if err := cluster.ApplyDeploy(ctx, "deploy/base"); err != nil {
		return err
	}
	if err := usher.Register(ctx); err != nil {
		return err
	}
	_, err = cluster.Kubectl(ctx, "apply", "-f", "deploy/demo/namespace.yaml")
	return err
}
