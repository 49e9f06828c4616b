// Package policies compares usher with the policies of the API server itself: the same expressions in rules of usher
// and in ValidatingAdmissionPolicies, and the policies of samples/admission-policies with the steps that they can
// replace. It has its own control plane, because such policies would act on the objects of other tests.
package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
)

// usherUser is usher's user name, with only the rights that `usher webhooks --rbac` prints.
const usherUser = "policies-usher"

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.Options{}, start) }

func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	account, err := cluster.Kubeconfig(usherUser)
	if err != nil {
		return err
	}
	usher, err = cluster.StartUsher(ctx, kubetest.UsherOptions{Before: giveRights, Policy: "{}",
		Flags: []string{"--cluster=api", "--kubeconfig=" + account}})
	return err
}

func giveRights(ctx context.Context, u *kubetest.Usher) error {
	role, err := u.Run(ctx, "webhooks", "--rbac")
	if err != nil {
		return err
	}
	return cluster.Apply(ctx, role+"\n---\n"+fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": {"name": "usher"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "usher"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": %q}]}`, usherUser))
}

// serve makes usher use a policy, and registers it for what the policy is for.
func serve(ctx context.Context, t *testing.T, policy string) {
	t.Helper()
	if err := usher.SetPolicy(policy); err != nil {
		t.Fatal(err)
	}
	replica := usher.Replicas[0]
	if err := replica.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := usher.Balancer.Wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	configurations, err := usher.Run(ctx, "webhooks", "--suite=core", "--config="+usher.PolicyFile(),
		"--service=usher/usher", "--url="+usher.URL, "--ca-file="+usher.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := usher.RegisterThese(ctx, configurations); err != nil {
		t.Fatal(err)
	}
}

// namespace creates a namespace.
func namespace(ctx context.Context, t *testing.T, name string, labels, annotations kubetest.Object) {
	t.Helper()
	cluster.MustApply(ctx, t, kubetest.Encode(kubetest.Object{"apiVersion": "v1", "kind": "Namespace",
		"metadata": kubetest.Object{"name": name, "labels": labels, "annotations": annotations}}))
}

// read reads a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := kubetest.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}
