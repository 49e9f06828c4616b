package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

// replicas is the number of replicas of usher.
const replicas = 2

// world is a control plane, and usher in it, reached through its Service.
type world struct {
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
	admin   *kubetest.Client
	node    *kubetest.Process
	flags   []string // of usher
	round   int      // of the load, so that names differ
}

// start starts the control plane and usher, and registers it.
func start(ctx context.Context) (*world, error) {
	c, err := kubetest.Start(ctx, kubetest.Options{Services: true})
	if err != nil {
		return nil, err
	}
	w := &world{cluster: c, admin: c.Admin()}
	if err := w.begin(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, c.Logs(15))
	}
	return w, nil
}

func (w *world) begin(ctx context.Context) (err error) {
	for name, label := range map[string]string{failing: "admission-webhook", ignoring: "chaos-ignore"} {
		if err := w.cluster.Apply(ctx, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q,
			"labels": {%q: "enabled"}}}`, name, label)); err != nil {
			return err
		}
	}
	account, err := w.cluster.Kubeconfig("system:serviceaccount:usher:usher", "system:serviceaccounts", "system:serviceaccounts:usher")
	if err != nil {
		return err
	}
	w.flags = []string{"--cert-dir=", "--certs=managed", "--kubeconfig=" + account, "--cert-lifetime=5m", "--ca-lifetime=30m"}
	if err := w.cluster.Apply(ctx, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "usher"}}`); err != nil {
		return err
	}
	if w.usher, err = w.cluster.StartUsher(ctx, kubetest.UsherOptions{Replicas: replicas, Flags: w.flags, Before: grant}); err != nil {
		return err
	}
	if err := w.register(ctx); err != nil {
		return err
	}
	return w.startNode(ctx)
}

// grant creates the rights that usher prints.
func grant(ctx context.Context, u *kubetest.Usher) error {
	rights, err := u.Run(ctx, "webhooks", "--rbac", "--certs=managed")
	if err != nil {
		return err
	}
	return u.Cluster().Apply(ctx, rights)
}

// nodeName is the only node. It runs no pod, and has its status amplified.
const nodeName = "chaos"

// startNode starts a kubelet, and waits until it has reported its status.
func (w *world) startNode(ctx context.Context) (err error) {
	if w.node, err = w.cluster.StartHollow(ctx, nodeName, kubetest.HollowOptions{StatusEvery: time.Second}); err != nil {
		return err
	}
	path := "/api/v1/nodes/" + nodeName
	if _, err := w.admin.Patch(ctx, path, kubetest.MergePatch, `{"metadata": {"labels": {"admission-webhook": "enabled"}}}`); err != nil {
		return err
	}
	return kubetest.Eventually(ctx, func(ctx context.Context) error {
		node, err := w.admin.Get(ctx, path)
		if err == nil && node.String("status", "capacity", "cpu") == "" {
			err = fmt.Errorf("the node has not reported its status")
		}
		return err
	})
}

// register registers usher twice: with Fail for one namespace, with Ignore for the other. As `usher webhooks apply` does,
// it takes the caBundle from the Secret.
func (w *world) register(ctx context.Context) error {
	bundle, err := base64.StdEncoding.DecodeString(w.stored(ctx, "usher-tls", "ca.crt"))
	if err != nil {
		return err
	}
	file := filepath.Join(w.cluster.Dir(), "bundle.crt")
	if err := os.WriteFile(file, bundle, 0o600); err != nil {
		return err
	}
	printed, err := w.usher.Run(ctx, "webhooks", "--config="+w.usher.PolicyFile(), "--ca-file="+file)
	if err != nil {
		return err
	}
	var both []string
	for text := range strings.SplitSeq(printed, "\n---\n") {
		doubled, err := double(text)
		if err != nil {
			return err
		}
		both = append(both, doubled)
	}
	if err := w.cluster.Apply(ctx, strings.Join(both, "\n---\n")); err != nil {
		return err
	}
	return w.healthy(ctx)
}

// double adds an entry with Ignore for each entry for pods.
func double(configuration string) (string, error) {
	var o kubetest.Object
	if err := yaml.Unmarshal([]byte(configuration), &o); err != nil {
		return "", err
	}
	entries := o.List("webhooks")
	for _, entry := range o.List("webhooks") {
		text, err := yaml.Marshal(entry)
		if err != nil || !strings.Contains(string(text), "admission-webhook") || strings.Contains(string(text), "nodes/status") {
			continue
		}
		changed := strings.NewReplacer("admission-webhook", "chaos-ignore", "name: "+entry.String("name"), "name: ignoring."+entry.String("name"),
			"failurePolicy: Fail", "failurePolicy: Ignore").Replace(string(text))
		var twin kubetest.Object
		if err := yaml.Unmarshal([]byte(changed), &twin); err != nil {
			return "", err
		}
		entries = append(entries, twin)
	}
	o["webhooks"] = entries
	text, err := yaml.Marshal(o)
	return string(text), err
}

// healthy waits until pods in both namespaces have been changed by usher for a second.
func (w *world) healthy(ctx context.Context) error {
	good := time.Time{}
	return kubetest.Eventually(ctx, func(ctx context.Context) error {
		for _, namespace := range []string{failing, ignoring} {
			if r := w.create(ctx, namespace, "probe", false); r.outcome != seated {
				good = time.Time{}
				return fmt.Errorf("a pod in %s: outcome %d, %w", namespace, r.outcome, r.err)
			}
		}
		if good.IsZero() {
			good = time.Now()
		}
		if time.Since(good) < time.Second {
			return fmt.Errorf("healthy for less than a second")
		}
		return nil
	})
}
