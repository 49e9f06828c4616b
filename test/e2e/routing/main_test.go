// Package routing tests usher behind an API server that chooses a replica for each review by itself, as it does with
// --enable-aggregator-routing since Kubernetes 1.37: the reviews of one pod go to different replicas, and connections are
// kept for each of them. The API accepts no loopback address as an endpoint, so the tests run in a network of their own.
package routing

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
	host    string
)

const (
	gates   = "EnableQuotaAdmission=true"
	clients = 12
)

// connectionLimit returns --max-connections of each replica: usher's default, unless USHER_ROUTING_CONNECTIONS says another. With
// fewer than clients, most connections end with an answer.
func connectionLimit() string { return cmp.Or(os.Getenv("USHER_ROUTING_CONNECTIONS"), "1000") }

func TestMain(m *testing.M) {
	if err := kubetest.InOwnNetwork(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kubetest.Main(m, kubetest.Options{APIServerFlags: []string{"--enable-aggregator-routing"}}, start)
}

// start starts three replicas that renew their certificates by themselves, and registers them by their Service.
func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if host, err = kubetest.OutsideAddress(); err != nil {
		return err
	}
	if err := cluster.ApplyDeploy(ctx, "deploy/crds"); err != nil {
		return err
	}
	account, err := c.Kubeconfig("system:serviceaccount:usher:usher", "system:serviceaccounts", "system:serviceaccounts:usher")
	if err != nil {
		return err
	}
	for _, object := range []string{
		`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "usher"}}`,
		`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "load", "labels": {"admission-webhook": "enabled"}}}`,
		`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "usher", "namespace": "usher"},
			"spec": {"ports": [{"name": "https", "port": 443, "targetPort": 9443}]}}`,
	} {
		if err := c.Apply(ctx, object); err != nil {
			return err
		}
	}
	usher, err = c.StartUsher(ctx, kubetest.UsherOptions{Replicas: 3, Before: grant, Flags: []string{"--listen=" + host + ":0",
		"--cert-dir=", "--certs=managed", "--cert-lifetime=20s", "--ca-lifetime=60s", "--max-connections=" + connectionLimit(),
		"--cluster=api", "--kubeconfig=" + account, "--feature-gates=" + gates, "--quota-reservation-expiry=15s"}})
	if err != nil {
		return err
	}
	go publishAll(context.WithoutCancel(ctx))
	configurations, err := usher.Run(ctx, "webhooks", "--suite=core,colocation", "--config="+usher.PolicyFile(), "--feature-gates="+gates) // without a caBundle
	if err != nil {
		return err
	}
	return usher.RegisterThese(ctx, configurations)
}

// grant gives usher the rights that it prints, for its certificates and for watching the cluster.
func grant(ctx context.Context, u *kubetest.Usher) error {
	for _, flag := range []string{"--certs=managed", "--feature-gates=" + gates} {
		rights, err := u.Run(ctx, "webhooks", "--rbac", flag)
		if err != nil {
			return err
		}
		if err := cluster.Apply(ctx, rights); err != nil {
			return err
		}
	}
	return cluster.Apply(ctx, `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "usher"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "usher"},
		"subjects": [{"kind": "ServiceAccount", "name": "usher", "namespace": "usher"}]}`)
}

// publishAll keeps an EndpointSlice for each replica, with its address and whether it is ready, until the cluster ends. One
// slice has one port, and the replicas here differ by it.
func publishAll(ctx context.Context) {
	published := make([]string, len(usher.Replicas))
	for ; ; time.Sleep(20 * time.Millisecond) {
		for i, r := range usher.Replicas {
			ready := usher.Balancer.IsReady(i)
			now := fmt.Sprint(r.Reviews(), ready)
			if now != published[i] && publish(ctx, i, r.Reviews(), ready) == nil {
				published[i] = now
			}
		}
	}
}

func publish(ctx context.Context, replica int, address string, ready bool) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("usher-%d", replica)
	_, err = cluster.Admin().Patch(ctx, "/apis/discovery.k8s.io/v1/namespaces/usher/endpointslices/"+name+"?fieldManager=routing&force=true",
		kubetest.ApplyPatch, kubetest.Object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"metadata":  kubetest.Object{"name": name, "namespace": "usher", "labels": kubetest.Object{"kubernetes.io/service-name": "usher"}},
			"ports":     []kubetest.Object{{"name": "https", "port": number, "protocol": "TCP"}},
			"endpoints": []kubetest.Object{{"addresses": []string{host}, "conditions": kubetest.Object{"ready": ready}}}})
	return err
}
