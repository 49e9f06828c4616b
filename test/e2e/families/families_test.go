// Package families tests usher in a dual-stack cluster whose first address family is IPv6: kube-apiserver, the Service and usher speak IPv6.
package families

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
)

func TestMain(m *testing.M) {
	kubetest.Main(m, kubetest.Options{Services: true, APIServerFlags: []string{
		"--bind-address=::", "--advertise-address=2001:db8::1", "--service-cluster-ip-range=fd00:10::/112,10.0.0.0/24"}}, start)
}

func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	usher, err = c.StartUsher(ctx, kubetest.UsherOptions{Flags: []string{"--listen=[::1]:0", "--ops-listen=[::1]:0"}})
	if err != nil {
		return err
	}
	return c.Apply(ctx, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"admission-webhook": "enabled"}}}
---
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv6", "ports": [{"name": "https", "port": 9443}],
	"metadata": {"name": "usher-1", "namespace": "usher", "labels": {"kubernetes.io/service-name": "usher"}},
	"endpoints": [{"addresses": ["2001:db8::2"], "conditions": {"ready": true}}]}`)
}

// TestFamilies: usher is registered, called and removed by an API server that reaches its Service at an IPv6 address.
func TestFamilies(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	service, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/usher/services/usher")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{service.String("spec", "clusterIP") + "/112", usher.Replicas[0].Reviews()} {
		if ip := strings.Trim(address[:strings.LastIndexAny(address, "/:")], "[]"); !netip.MustParseAddr(ip).Is6() {
			t.Fatalf("%s is not of IPv6", address)
		}
	}
	at := "--kubeconfig=" + cluster.AdminKubeconfig()
	if out, err := usher.Run(ctx, "webhooks", "apply", "--yes", at, "--config="+usher.PolicyFile(), "--ca-file="+usher.CAFile, "--fail-open=all"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	called(ctx, t, true)
	if out, err := usher.Run(ctx, "webhooks", "remove", "--yes", at); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	called(ctx, t, false)
}

// called waits until a pod with a denied name is refused by usher, or no longer is.
func called(ctx context.Context, t *testing.T, want bool) {
	t.Helper()
	pod := kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": "offensive"},
		"spec": kubetest.Object{"containers": []kubetest.Object{{"name": "c", "image": "i"}}}}
	for {
		_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/apps/pods?dryRun=All", pod)
		if refused := err != nil && strings.Contains(err.Error(), "validate-pods.usher.dev"); refused == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("called must be %t: %v", want, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
