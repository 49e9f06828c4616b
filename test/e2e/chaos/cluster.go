package main

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// Faults of the cluster around usher.

func slowEtcd(ctx context.Context, w *world) error {
	etcd := w.cluster.Etcd()
	for range 40 {
		if err := etcd.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		kubetest.Pause(ctx, 150*time.Millisecond)
		if err := etcd.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		kubetest.Pause(ctx, 100*time.Millisecond)
	}
	return nil
}

// startWithoutUsher checks that what a cluster starts with needs no usher: pods of the system, and usher's own.
func startWithoutUsher(ctx context.Context, w *world) error {
	w.killReplicas()
	w.cluster.APIServer().Kill()
	if err := w.cluster.RestartEtcd(ctx); err != nil {
		return err
	}
	if err := w.cluster.StartAPIServer(ctx); err != nil {
		return err
	}
	if err := w.systemStarts(ctx); err != nil {
		return err
	}
	kubetest.Pause(ctx, 5*time.Second)
	return w.startReplicas(ctx)
}

// systemStarts creates a pod, as a dry run, in each namespace that usher leaves alone.
func (w *world) systemStarts(ctx context.Context) error {
	for _, namespace := range []string{"kube-system", "usher"} {
		if _, err := w.admin.Create(ctx, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All", podNamed("system")); err != nil {
			return fmt.Errorf("a pod in %s needs usher: %w", namespace, err)
		}
	}
	return nil
}

// loseLastNode replaces the only node while usher is gone. The new node must register, and report its status.
func loseLastNode(ctx context.Context, w *world) error {
	w.killReplicas()
	w.node.Kill()
	if _, err := w.admin.Delete(ctx, "/api/v1/nodes/"+nodeName); err != nil {
		return err
	}
	kubetest.Pause(ctx, 5*time.Second)
	if err := w.startNode(ctx); err != nil {
		return fmt.Errorf("a new node cannot join without usher: %w", err)
	}
	if err := w.systemStarts(ctx); err != nil {
		return err
	}
	return w.startReplicas(ctx)
}

func deleteConfigurations(ctx context.Context, w *world) error {
	if err := w.usher.Unregister(ctx); err != nil {
		return err
	}
	kubetest.Pause(ctx, 3*time.Second)
	return w.register(ctx)
}

func startWithoutAPIServer(ctx context.Context, w *world) error {
	if err := w.cluster.StopAPIServer(ctx); err != nil {
		return err
	}
	if err := w.usher.Replicas[1].Terminate(ctx); err != nil {
		return err
	}
	if err := w.usher.Replicas[1].Start(ctx); err != nil {
		return err
	}
	kubetest.Pause(ctx, 3*time.Second)
	if err := w.cluster.StartAPIServer(ctx); err != nil {
		return err
	}
	return w.usher.Balancer.Wait(ctx, replicas)
}

// hang registers three webhooks that accept connections and never answer, for 45 s.
func hang(ctx context.Context, w *world) error {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer mute.Close()
	const path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	for i := range 3 {
		name := fmt.Sprintf("a-hangs-%d", i)
		if _, err := w.admin.Create(ctx, path, kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1",
			"kind": "MutatingWebhookConfiguration", "metadata": kubetest.Object{"name": name},
			"webhooks": []kubetest.Object{hanging(name, mute.Addr().String())}}); err != nil {
			return err
		}
		defer func() { _, _ = w.admin.Delete(context.WithoutCancel(ctx), path+"/"+name) }()
	}
	kubetest.Pause(ctx, 45*time.Second)
	return nil
}

func hanging(name, address string) kubetest.Object {
	return kubetest.Object{"name": name + ".example.com", "failurePolicy": "Ignore", "timeoutSeconds": 10, "sideEffects": "None",
		"admissionReviewVersions": []string{"v1"}, "clientConfig": kubetest.Object{"url": "https://" + address},
		"namespaceSelector": kubetest.Object{"matchExpressions": []kubetest.Object{
			{"key": "kubernetes.io/metadata.name", "operator": "In", "values": []string{failing, ignoring}}}},
		"rules": []kubetest.Object{{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"},
			"resources": []string{"pods"}}}}
}

func restartAPIServer(ctx context.Context, w *world) error { return w.cluster.RestartAPIServer(ctx) }
