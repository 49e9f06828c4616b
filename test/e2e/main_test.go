package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// One control plane and one usher for all tests. A test uses names of its own, and puts right what it disturbs.
var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "the end-to-end tests cannot start:", err)
		if cluster != nil {
			fmt.Fprintln(os.Stderr, cluster.Logs(15))
			_ = cluster.Stop()
		}
		return 1
	}
	code := m.Run()
	usher.Stop()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// start does what deploy/deploy.sh does: what the service needs, the service, and last the webhook configurations.
func start(ctx context.Context) (err error) {
	if cluster, err = kubetest.Start(ctx, kubetest.Options{}); err != nil {
		return err
	}
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

// within is a test's context. When the test has failed, it prints what the processes wrote last.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Log("\n" + cluster.LogsOf(10, "kube-apiserver", "usher"))
		}
	})
	return ctx
}
