// Package colocation tests the colocation suite against a real API server, which usher watches with the rights of its
// ServiceAccount. It has its own control plane, because the suite acts on all namespaces and thus on the pods of the
// other tests.
package colocation

import (
	"context"
	"strings"
	"testing"

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

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.Options{}, start) }

// start does what `make deploy OVERLAY=koordinator-demo` does. It starts usher first, so that the CRDs appear while usher
// is watching.
func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	gates, err := featureGates()
	if err != nil {
		return err
	}
	account, err := cluster.Kubeconfig("system:serviceaccount:usher:usher", "system:serviceaccounts", "system:serviceaccounts:usher")
	if err != nil {
		return err
	}
	for _, overlay := range []string{"koordinator", "koordinator-demo"} {
		if err := cluster.ApplyDeploy(ctx, "deploy/overlays/"+overlay); err != nil {
			return err
		}
		if _, err := cluster.Kubectl(ctx, "-n", "usher", "delete", "job", "usher-webhooks"); err != nil { // it cannot be changed
			return err
		}
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
		"--service=usher/usher", "--url="+usher.URL, "--ca-file="+usher.CAFile, "--exclude-namespace="+excludedNamespace,
		"--exclude-pods="+excludedAccount)
	if err != nil {
		return err
	}
	return usher.RegisterThese(ctx, configurations)
}

// featureGates returns the gates of the demo overlay.
func featureGates() (string, error) {
	text, err := kubetest.ReadFile("samples/feature-gates")
	return strings.TrimSpace(text), err
}
