package registration

import (
	"context"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// load creates pods until it is stopped, which fails the test if any request failed.
func load(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	return kubetest.Load(ctx, t, 0, func(ctx context.Context) error {
		_, err := create(ctx, "harmless")
		return err
	})
}

// TestNoRequestFails: usher is installed, registered, registered for something else, unregistered and stopped while
// pods are created, and none is refused. Nothing is registered before a replica is ready.
func TestNoRequestFails(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	remove(ctx, t)
	start := usher.KillAll(ctx, t)
	if err := ready(ctx, false); err != nil {
		t.Fatal(err)
	}
	stop := load(ctx, t)
	defer stop()

	apply(ctx, t, 2, []string{"no replica behind the Service usher/usher is ready (of 1)", "nothing was registered"}, "--wait=1s")
	if _, err := cluster.Admin().Get(ctx, validating); err == nil {
		t.Fatal("it was registered without a replica")
	}
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		apply(ctx, t, 0, []string{"+ validate-pods.usher.dev: is called for CREATE", "waiting: no replica", "registered"})
	}()
	time.Sleep(2 * time.Second) // it waits meanwhile; a registration too early fails a pod
	start()
	if err := ready(ctx, true); err != nil {
		t.Fatal(err)
	}
	<-applied
	called(ctx, t, true)

	apply(ctx, t, 0, []string{"nothing to do"})
	apply(ctx, t, 1, []string{"~ validate-pods.usher.dev: namespaceSelector: "}, "--exclude-namespace=rook-ceph", "--dry-run")
	apply(ctx, t, 0, []string{"~ validate-pods.usher.dev: namespaceSelector: ", "kube-system,rook-ceph,usher"}, "--exclude-namespace=rook-ceph")
	if err := usher.Replicas[0].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := usher.Balancer.Wait(ctx, 2); err != nil {
		t.Fatal(err)
	}

	if out := remove(ctx, t); strings.Count(out, "removed: ") != 2 {
		t.Errorf("remove says:\n%s", out)
	}
	if out := remove(ctx, t); !strings.Contains(out, "nothing to do: usher is not registered") {
		t.Errorf("remove says, again:\n%s", out)
	}
	called(ctx, t, false)
	usher.KillAll(ctx, t)
	time.Sleep(time.Second)
	stop()
}

// TestARollOutIsAwaited: while the Deployment is being rolled out, old replicas could be called for what they do not
// serve.
func TestARollOutIsAwaited(t *testing.T) {
	ctx := cluster.Within(t, 30*time.Second)
	remove(ctx, t)
	const deployments = "/apis/apps/v1/namespaces/usher/deployments"
	cluster.DeleteAfter(t, deployments+"/usher")
	labels := kubetest.Object{"matchLabels": kubetest.Object{"a": "b"}}
	_, err := cluster.Admin().Create(ctx, deployments, kubetest.Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": kubetest.Object{"name": "usher"},
		"spec": kubetest.Object{"replicas": 2, "selector": labels, "template": kubetest.Object{"metadata": kubetest.Object{"labels": kubetest.Object{"a": "b"}},
			"spec": kubetest.Object{"containers": []kubetest.Object{{"name": "c", "image": "i"}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	status := func(updated, all int) {
		t.Helper()
		patch := kubetest.Object{"status": kubetest.Object{"observedGeneration": 1, "replicas": all, "updatedReplicas": updated, "readyReplicas": updated, "availableReplicas": updated}}
		if _, err := cluster.Admin().Patch(ctx, deployments+"/usher/status", kubetest.MergePatch, patch); err != nil {
			t.Fatal(err)
		}
	}
	apply(ctx, t, 2, []string{"the Deployment usher/usher is being rolled out"}, "--wait=1s")
	status(1, 2)
	apply(ctx, t, 2, []string{"1 of 2 replicas are up to date"}, "--wait=1s")
	status(2, 3)
	apply(ctx, t, 2, []string{"is being rolled out"}, "--wait=1s")
	status(2, 2)
	apply(ctx, t, 0, []string{"registered"}, "--wait=1s")
}

// TestThereIsNoAnswer: without a terminal there is no answer.
func TestThereIsNoAnswer(t *testing.T) {
	ctx := cluster.Within(t, 30*time.Second)
	remove(ctx, t)
	for _, command := range []string{"apply", "remove"} {
		if out, code := run(ctx, t, command, "--kubeconfig="+cluster.AdminKubeconfig()); code != 2 || !strings.Contains(out, "--yes") {
			t.Errorf("%s: exit code %d:\n%s", command, code, out)
		}
	}
}

// TestTheBundleIsFound: without --ca-file it comes from the Secret, else the registered one stays; without any, nothing
// is registered.
func TestTheBundleIsFound(t *testing.T) {
	ctx := cluster.Within(t, 30*time.Second)
	remove(ctx, t)
	apply(ctx, t, 2, []string{"no caBundle", "pass --ca-file"}, "--ca-file=")
	secret, err := usher.Run(ctx, "certs", "init", "--service=usher/usher", "-o=secret")
	if err != nil {
		t.Fatal(err)
	}
	cluster.MustApply(ctx, t, secret)
	apply(ctx, t, 0, []string{"registered"}, "--ca-file=")
	first := entry(ctx, t, validating, "validate-pods.usher.dev").String("clientConfig", "caBundle")
	if _, err := cluster.Admin().Delete(ctx, "/api/v1/namespaces/usher/secrets/usher-tls"); err != nil {
		t.Fatal(err)
	}
	apply(ctx, t, 0, []string{"nothing to do"}, "--ca-file=")
	apply(ctx, t, 0, []string{"~ validate-pods.usher.dev: failurePolicy: \"Fail\" -> \"Ignore\"", "registered"}, "--ca-file=", "--fail-open=all")
	if now := entry(ctx, t, validating, "validate-pods.usher.dev").String("clientConfig", "caBundle"); first == "" || now != first {
		t.Errorf("the caBundle was %q, is %q", first, now)
	}
	apply(ctx, t, 0, []string{"caBundle: ", "registered"})
}

// TestAnotherControllerFillsInTheBundle: until it has, nothing fails; then failurePolicy is Fail.
func TestAnotherControllerFillsInTheBundle(t *testing.T) {
	ctx := cluster.Within(t, 30*time.Second)
	remove(ctx, t)
	stop := load(ctx, t)
	defer stop()
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		apply(ctx, t, 0, []string{"failurePolicy Ignore until the caBundle is filled in", "registered"}, "--ca-file=", "--inject=cert-manager")
	}()
	bundle := read(t, usher.CAFile)
	for _, path := range []string{mutating, validating} {
		var configuration kubetest.Object
		err := kubetest.Eventually(ctx, func(ctx context.Context) (err error) {
			configuration, err = cluster.Admin().Get(ctx, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if configuration.String("metadata", "annotations", "cert-manager.io/inject-ca-from") != "usher/usher-tls" {
			t.Errorf("%s has no annotation for cert-manager", path)
		}
		time.Sleep(time.Second) // the API server calls it meanwhile, with Ignore
		for i, w := range configuration.List("webhooks") {
			if w.String("failurePolicy") != "Ignore" {
				t.Errorf("%s: failurePolicy %s without a caBundle", w.String("name"), w.String("failurePolicy"))
			}
			configuration.List("webhooks")[i]["clientConfig"].(map[string]any)["caBundle"] = bundle
		}
		if _, err := cluster.Admin().Update(ctx, path+"?fieldManager=cainjector", configuration); err != nil {
			t.Fatal(err)
		}
	}
	<-applied
	called(ctx, t, true)
	if w := entry(ctx, t, validating, "validate-pods.usher.dev"); w.String("failurePolicy") != "Fail" || w.String("clientConfig", "caBundle") == "" {
		t.Errorf("in the end: %v", w)
	}
	apply(ctx, t, 0, []string{"nothing to do"}, "--ca-file=", "--inject=cert-manager")
}
