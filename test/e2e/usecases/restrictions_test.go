package usecases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestRestrictions: users with all rights of a namespace are restricted in it, through every resource that the policy
// names, and cannot free it of the restriction. The control plane is not restricted.
func TestRestrictions(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	namespace(ctx, t, "guarded", kubetest.Object{"env": "production"}, nil)
	namespace(ctx, t, "unguarded", nil, nil)
	run := func(args ...string) (string, error) { return cluster.Kubectl(ctx, args...) }
	must := func(args ...string) {
		t.Helper()
		if out, err := run(args...); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	must("create", "clusterrole", "developers", "--verb=*", "--resource=deployments.apps,pods,pods/exec,pods/attach,pods/ephemeralcontainers,"+
		"namespaces,namespaces/status,namespaces/finalize")
	must("create", "clusterrolebinding", "developers", "--clusterrole", "developers", "--group", "developers")
	must("-n", "guarded", "run", "web", "--image", "registry.k8s.io/pause:3.10", "--overrides", `{"spec": {"automountServiceAccountToken": false}}`)
	use(ctx, t, "samples/policies/restrictions.yaml")
	awaitRefusal(ctx, t, "/apis/apps/v1/namespaces/guarded/deployments", `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe"},
		"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}}`)

	jane := []string{"--as=jane", "--as-group=developers"}
	const patchEnv = `{"metadata": {"labels": {"env": "staging"}}}`
	for _, c := range []struct {
		name    string
		args    []string
		refused string // "": allowed
	}{
		{"create", []string{"-n", "guarded", "create", "deployment", "a", "--image", "a"}, "may not create deployments in namespace guarded"},
		{"where it does not hold", []string{"-n", "unguarded", "create", "deployment", "a", "--image", "a"}, ""},
		{"a shell", []string{"-n", "guarded", "exec", "web", "--", "sh"}, "may not connect to pods/exec in namespace guarded"},
		{"attach", []string{"-n", "guarded", "attach", "web"}, "may not connect to pods/attach in namespace guarded"},
		{"an ephemeral container", []string{"-n", "guarded", "debug", "web", "--image", "a"}, "may not update pods/ephemeralcontainers in namespace guarded"},
		{"relabel", []string{"patch", "namespace", "guarded", "-p", patchEnv}, "metadata.labels[env]: Forbidden: must remain production"},
		{"relabel by its status", []string{"patch", "namespace", "guarded", "--subresource=status", "-p", patchEnv}, "must remain production"},
		{"opt out", []string{"label", "namespace", "guarded", "admission-webhook-"}, "metadata.labels[admission-webhook]"},
		{"exempt", []string{"label", "namespace", "guarded", "usher.dev/exempt=true"}, "metadata.labels[usher.dev/exempt]"},
		{"another label", []string{"label", "namespace", "guarded", "seen=yes"}, ""},
		{"relabel what is not restricted", []string{"label", "namespace", "unguarded", "env=staging"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := run(append(slices.Clip(jane), c.args...)...)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(out+err.Error(), c.refused)) {
				t.Errorf("want %q, got %v\n%s", c.refused, err, out)
			}
		})
	}
	stored, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/guarded")
	if err != nil || stored.String("metadata", "labels", "env") != "production" {
		t.Errorf("the namespace is %v, %v", stored, err)
	}
}

// TestRestrictionsInEveryVersion: an entry for one version holds in another one, which the API server sends unconverted
// because another entry is for all versions.
func TestRestrictionsInEveryVersion(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	namespace(ctx, t, "guarded", kubetest.Object{"env": "production"}, nil)
	useText(ctx, t, `restrictions:
- {name: no-autoscaler, requests: [{apiGroups: [autoscaling], apiVersions: [v2], resources: [horizontalpodautoscalers], operations: [CREATE]}]}
- {name: no-interns, requests: [{apiGroups: [autoscaling], resources: ["*"], operations: [CREATE]}], deny: {groups: [interns]}}
`)
	const scaler = `{"apiVersion": "autoscaling/%s", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
		"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}`
	const all = "/apis/autoscaling/%s/namespaces/guarded/horizontalpodautoscalers"
	awaitText(ctx, t, fmt.Sprintf(all, "v2"), fmt.Sprintf(scaler, "v2"), "restriction no-autoscaler")
	kubetest.RefusedWith(t, create(ctx, fmt.Sprintf(all, "v1")+"?dryRun=All", fmt.Sprintf(scaler, "v1")), "restriction no-autoscaler")
}

// TestConfigurationsAreSentToNoWebhook is why a policy cannot name them: the API server does not ask even a webhook that
// is registered for them. RBAC guards them.
func TestConfigurationsAreSentToNoWebhook(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	const trap = `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "trap"}, "webhooks": [{
		"name": "trap.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
		"rules": [{"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]}]}`
	if err := cluster.Apply(ctx, trap); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // until the API server has noticed
	if out, err := cluster.Kubectl(ctx, "label", "validatingwebhookconfiguration", "trap", "a=b"); err != nil {
		t.Errorf("it was sent: %v\n%s", err, out)
	}
	if out, err := cluster.Kubectl(ctx, "delete", "validatingwebhookconfiguration", "trap", "--as=jane", "--as-group=developers"); err == nil || !strings.Contains(out+err.Error(), "cannot delete resource") {
		t.Errorf("without the right: %v\n%s", err, out)
	}
	if out, err := cluster.Kubectl(ctx, "delete", "validatingwebhookconfiguration", "trap"); err != nil {
		t.Errorf("with the right: %v\n%s", err, out)
	}
}
