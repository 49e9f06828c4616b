// Package quota proves the quota ledger against a real API server: several replicas of usher that hold pods to a tree of elastic quotas,
// while they are killed, the API server restarts, and creates come to nothing. It has a control plane of its own, because the API server's
// request timeout and usher's expiry are short here, and etcd keeps its whole history.
//
//	pods_test.go       what happens to one pod after the other
//	quotas_test.go     what happens to the quotas
//	late_test.go       a watch that is later than the expiry
//	guarantee_test.go  many pods, few quotas, and chaos: TestGuarantee, and TestSoakQuota of `make soak`
//	load_test.go       the clients
//	checker_test.go    replays etcd's history, and holds every admission to the limits
//	front_test.go      what stands before the replicas
//	speed_test.go      what the ledger costs
package quota

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
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
	// usherUser is who usher is, with no other rights than `usher webhooks --rbac` prints.
	usherUser = "quota-usher"
	// expiry is longer than requestTimeout and what a watch may be late here.
	expiry         = 15 * time.Second
	requestTimeout = 8 * time.Second
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
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
	front.close()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// replicas are two, or three in a soak.
func replicas() int {
	if os.Getenv("USHER_SOAK") != "" {
		return 3
	}
	return 2
}

func start(ctx context.Context) (err error) {
	if cluster, err = kubetest.Start(ctx, kubetest.Options{APIServerFlags: []string{
		"--request-timeout=" + requestTimeout.String(), "--etcd-compaction-interval=0"}}); err != nil {
		return err
	}
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

// giveRights gives usher what `usher webhooks --rbac` says, and nothing else.
func giveRights(ctx context.Context, u *kubetest.Usher) error {
	role, err := u.Run(ctx, "webhooks", "--suite=colocation", "--rbac", "--feature-gates="+gates)
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

// eventually waits for what a watch must bring first.
func eventually(ctx context.Context, t *testing.T, try func(context.Context) error) {
	t.Helper()
	if err := kubetest.Eventually(ctx, try); err != nil {
		t.Fatal(err)
	}
}

// stored fails the test unless the API server took it.
func stored(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// removeAfter deletes objects when the test has ended.
func removeAfter(t *testing.T, paths ...string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, path := range paths {
			_, _ = cluster.Admin().Delete(ctx, path)
		}
	})
}
