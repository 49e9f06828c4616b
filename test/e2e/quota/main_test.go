// Package quota tests the quota ledger against a real API server: several replicas of usher enforce a tree of elastic
// quotas while they are killed, the API server restarts, and creations fail. It has its own control plane, because the
// API server's request timeout and usher's expiry are short here, and etcd keeps its whole history.
//
//	pods_test.go       single pods
//	held_test.go       pods that hold more or less than they request: resizes that wait
//	quotas_test.go     changes of quotas
//	tenant*_test.go    what a tenant may try
//	status_test.go     what tenants see of their quotas
//	late_test.go       a watch that lags by more than the expiry
//	tree_test.go       changes of quotas that a watch has not shown
//	guarantee_test.go  many pods, few quotas, and chaos: TestGuarantee, and TestSoakQuota of `make soak`
//	soak_held_test.go  the same while pods are resized and quotas change: TestHeld and TestGrants, TestSoakHeld and TestSoakGrants of `make soak`
//	kubelet_test.go    hollow kubelets that carry out resizes
//	load_test.go       the clients
//	checker_test.go    reads etcd's history as it happens, for the checker in checker/
//	front_test.go      the proxy in front of the replicas
//	speed_test.go      the cost of quotas: TestSoakSpeed of `make soak`
//	speed_*_test.go    its ways, its clients, what the ledger is compared with, and its table
package quota

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
	front   *frontDoor
)

const (
	gates = "EnableQuotaAdmission=true,EnableQuotaAdmissionOnUpdate=true"
	// usherUser is usher's user name, with only the rights that `usher webhooks --rbac` prints.
	usherUser = "quota-usher"
	// expiry is longer than requestTimeout and the lag of a watch here.
	expiry         = 15 * time.Second
	requestTimeout = 8 * time.Second
)

func TestMain(m *testing.M) {
	kubetest.Main(m, kubetest.Options{APIServerFlags: []string{
		"--request-timeout=" + requestTimeout.String(), "--etcd-compaction-interval=0", "--delete-collection-workers=16"},
		EtcdFlags: []string{"--quota-backend-bytes=8589934592"}}, start) // a soak writes more than etcd's default of 2 GiB
}

// replicas returns the number of replicas: two, or three in a soak.
func replicas() int {
	if os.Getenv("USHER_SOAK") != "" {
		return 3
	}
	return 2
}

func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if err := cluster.ApplyDeploy(ctx, "deploy/crds"); err != nil {
		return err
	}
	account, err := cluster.Kubeconfig(usherUser)
	if err != nil {
		return err
	}
	usher, err = cluster.StartUsher(ctx, kubetest.UsherOptions{Replicas: replicas(), Before: giveRights, Flags: []string{
		"--cluster=api", "--kubeconfig=" + account, "--feature-gates=" + gates, "--quota-reservation-expiry=" + expiry.String()}})
	if err != nil {
		return err
	}
	if front, err = openFront(usher); err != nil {
		return err
	}
	return register(ctx, gates)
}

// giveRights grants usher only the rights that `usher webhooks --rbac` prints.
func giveRights(ctx context.Context, u *kubetest.Usher) error {
	role, err := u.Run(ctx, "webhooks", "--rbac", "--feature-gates="+gates+",QuotaByDeviceClasses=true") // of TestDeviceClaims
	if err != nil {
		return err
	}
	return cluster.Apply(ctx, role+"\n---\n"+fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": {"name": "usher"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "usher"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": %q}]}`, usherUser))
}

// register makes the API server call the front.
func register(ctx context.Context, gates string) error {
	configurations, err := usher.Run(ctx, "webhooks", "--suite=colocation", "--feature-gates="+gates,
		"--url="+front.URL, "--ca-file="+front.caFile, "--user="+usherUser)
	if err != nil {
		return err
	}
	return usher.RegisterThese(ctx, configurations)
}

// eventually retries until a watch has shown the required state.
func eventually(ctx context.Context, t *testing.T, try func(context.Context) error) {
	t.Helper()
	if err := kubetest.Eventually(ctx, try); err != nil {
		t.Fatal(err)
	}
}

// stored fails the test unless the API server stored the object.
func stored(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
