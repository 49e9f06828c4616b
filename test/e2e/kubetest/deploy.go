package kubetest

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// RenderDeploy renders a kustomization of the repository, such as "deploy/base", as kubectl does.
func (c *Cluster) RenderDeploy(ctx context.Context, dir string) (string, error) {
	return c.Kubectl(ctx, "kustomize", dir)
}

// ApplyDeploy applies a kustomization. A Deployment in it creates pods only if the cluster has a controller manager.
func (c *Cluster) ApplyDeploy(ctx context.Context, dir string) error {
	_, err := c.Kubectl(ctx, "apply", "-k", dir)
	return err
}

// Webhooks returns the webhook configurations that usher prints for its current policy; without Options.Services they
// have the balancer's URL instead of the Service. more are flags of `usher webhooks`, such as --suite.
func (u *Usher) Webhooks(ctx context.Context, more ...string) (string, error) {
	flags := append([]string{"webhooks", "--config", u.policyFile, "--service", "usher/usher", "--ca-file", u.CAFile}, more...)
	if u.cluster.services == nil {
		flags = append(flags, "--url", u.URL)
	}
	return u.Run(ctx, flags...)
}

// Register applies the webhook configurations and waits until the API server calls the webhooks for pods. All webhooks
// of a configuration become active together, so the others are active too.
func (u *Usher) Register(ctx context.Context) error {
	configurations, err := u.Webhooks(ctx)
	if err != nil {
		return err
	}
	return u.RegisterThese(ctx, configurations)
}

// RegisterThese is like Register, with configurations that a test has changed.
func (u *Usher) RegisterThese(ctx context.Context, configurations string) error {
	if err := u.cluster.Apply(ctx, configurations); err != nil {
		return err
	}
	names, err := podWebhooks(configurations)
	if err != nil {
		return err
	}
	return u.cluster.awaitCalls(ctx, names)
}

// Unregister removes the webhook configurations.
func (u *Usher) Unregister(ctx context.Context) error {
	_, err := u.cluster.Kubectl(ctx, "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration",
		"-l", "app.kubernetes.io/name=usher", "--ignore-not-found")
	return err
}

// podWebhooks returns the webhooks that are called when a pod is created.
func podWebhooks(configurations string) (names []string, err error) {
	for text := range strings.SplitSeq(configurations, "\n---\n") {
		var o Object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return nil, err
		}
		for _, webhook := range o.List("webhooks") {
			for _, rule := range webhook.List("rules") {
				if fmt.Sprint(rule.At("resources")) == "[pods]" && strings.Contains(fmt.Sprint(rule.At("operations")), "CREATE") {
					names = append(names, webhook.String("name"))
				}
			}
		}
	}
	return names, nil
}

// probeNamespace is the namespace in which pods are created as a dry run, to see which webhooks are called.
const probeNamespace = `{"apiVersion": "v1", "kind": "Namespace",
	"metadata": {"name": "usher-e2e-probe", "labels": {"admission-webhook": "enabled"}}}`

const probePod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
	"spec": {"containers": [{"name": "c", "image": "probe"}]}}`

// awaitCalls creates pods as a dry run until this API server has called each webhook. It reads the API server's
// metrics, so the result does not depend on the policy.
func (c *Cluster) awaitCalls(ctx context.Context, names []string) error {
	if err := c.Apply(ctx, probeNamespace); err != nil {
		return err
	}
	admin := c.Admin()
	before, err := admin.Text(ctx, "/metrics")
	if err != nil {
		return err
	}
	return Eventually(ctx, func(ctx context.Context) error {
		r, err := admin.Do(ctx, "POST", "/api/v1/namespaces/usher-e2e-probe/pods?dryRun=All", "application/json", probePod)
		if err != nil {
			return err
		}
		now, err := admin.Text(ctx, "/metrics")
		if err != nil {
			return err
		}
		for _, name := range names {
			if calls(now, name) == calls(before, name) {
				return fmt.Errorf("the API server does not call %s; it answered a pod with %d %s", name, r.Status, r.Body)
			}
		}
		return nil
	})
}

// calls returns the API server's counters of calls of one webhook.
func calls(metrics, webhook string) string {
	lines := regexp.MustCompile(`(?m)^apiserver_admission_webhook_request_total\{[^}]*name="` + regexp.QuoteMeta(webhook) + `".*$`)
	return strings.Join(lines.FindAllString(metrics, -1), "\n")
}

// Rendered returns the objects of a kustomization of the repository, such as "deploy/overlays/demo".
func (c *Cluster) Rendered(ctx context.Context, dir string) (objects []Object, err error) {
	text, err := c.RenderDeploy(ctx, dir)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var o Object
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}
