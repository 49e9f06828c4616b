// Package certificates tests usher serve --certs=managed against a real API server: two replicas with exactly the
// rights that usher prints, behind a Service, with lifetimes of seconds, so that certificates and CAs are renewed all
// the time.
package certificates

import (
	"context"
	"os"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
	account string // the kubeconfig of usher's service account
)

const (
	secrets    = "/api/v1/namespaces/usher/secrets/"
	mutating   = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/usher"
	validating = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/usher"
)

// lifetimes returns flags: replicas look every 0.33 s, and a new CA waits 1 s. In the soak, CAs live longer, so that more of
// what happens to them is of others.
func lifetimes() []string {
	if os.Getenv("USHER_SOAK") != "" {
		return []string{"--cert-lifetime=20s", "--ca-lifetime=3m"}
	}
	return []string{"--cert-lifetime=20s", "--ca-lifetime=60s"}
}

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.Options{Services: true}, start) }

func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if account, err = c.Kubeconfig("system:serviceaccount:usher:usher", "system:serviceaccounts", "system:serviceaccounts:usher"); err != nil {
		return err
	}
	for _, namespace := range []string{"usher", "load"} {
		if err := c.Apply(ctx, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+namespace+`", "labels": {"admission-webhook": "enabled"}}}`); err != nil {
			return err
		}
	}
	usher, err = c.StartUsher(ctx, kubetest.UsherOptions{Replicas: 2, Before: grant,
		Flags: append([]string{"--cert-dir=", "--certs=managed", "--kubeconfig=" + account}, lifetimes()...)})
	if err != nil {
		return err
	}
	configurations, err := usher.Run(ctx, "webhooks", "--config="+usher.PolicyFile()) // without a caBundle
	if err != nil {
		return err
	}
	return usher.RegisterThese(ctx, configurations)
}

// grant gives usher the rights that it prints.
func grant(ctx context.Context, u *kubetest.Usher) error {
	rights, err := u.Run(ctx, "webhooks", "--rbac", "--certs=managed")
	if err != nil {
		return err
	}
	return cluster.Apply(ctx, rights)
}
