// Package colocation tests the colocation suite against a real API server, with usher watching it by its ServiceAccount's rights. It has
// a control plane of its own, because the suite acts on all namespaces, and so on the pods of the other tests.
package colocation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
)

const (
	priorityClasses = "/apis/scheduling.k8s.io/v1/priorityclasses"
	profiles        = "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles"
	reservations    = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
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

// start does what `make deploy SUITE=colocation-demo` does. usher comes first, so that the kinds of which it has no CRD yet appear
// while it watches.
func start(ctx context.Context) (err error) {
	if cluster, err = kubetest.Start(ctx, kubetest.Options{}); err != nil {
		return err
	}
	gates, err := featureGates()
	if err != nil {
		return err
	}
	account, err := cluster.Kubeconfig("system:serviceaccount:usher:usher", "system:serviceaccounts", "system:serviceaccounts:usher")
	if err != nil {
		return err
	}
	if err := cluster.ApplyDeploy(ctx, "deploy/colocation"); err != nil {
		return err
	}
	if err := cluster.ApplyDeploy(ctx, "deploy/colocation-demo"); err != nil {
		return err
	}
	usher, err = cluster.StartUsher(ctx, kubetest.UsherOptions{Replicas: 2,
		Flags: []string{"--cluster=api", "--kubeconfig=" + account, "--feature-gates=" + gates}})
	if err != nil {
		return err
	}
	return register(ctx, gates)
}

func register(ctx context.Context, gates string) error {
	configurations, err := usher.Run(ctx, "webhooks", "--suite=core,colocation", "--feature-gates="+gates,
		"--service=usher/usher", "--url="+usher.URL, "--ca-file="+usher.CAFile, "--exclude-namespace="+excludedNamespace)
	if err != nil {
		return err
	}
	return usher.RegisterThese(ctx, configurations)
}

// featureGates are those of the demo overlay.
func featureGates() (string, error) {
	text, err := os.ReadFile(filepath.Join("..", "..", "samples", "feature-gates"))
	return strings.TrimSpace(string(text)), err
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

func apply(ctx context.Context, t *testing.T, manifest string) {
	t.Helper()
	if err := cluster.Apply(ctx, manifest); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an object when the test has ended.
func remove(t *testing.T, path string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_, _ = cluster.Admin().Delete(ctx, path)
	})
}

// refusedWith fails the test unless the API server refused with a text.
func refusedWith(t *testing.T, err error, texts ...string) {
	t.Helper()
	var refused *kubetest.StatusError
	if !errors.As(err, &refused) {
		t.Fatalf("not refused: %v", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("it does not say %q: %v", text, err)
		}
	}
}
