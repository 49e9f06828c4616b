package chart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

const (
	deployment = "/apis/apps/v1/namespaces/usher/deployments/usher"
	jobs       = "/apis/batch/v1/namespaces/usher/jobs"
	service    = "/api/v1/namespaces/usher/services/usher"
	mutating   = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/usher"
	validating = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/usher"
	pods       = "/api/v1/namespaces/apps/pods"
)

// cluster is a control plane whose nodes are missing: the test does what kubelets and controllers would do.
type cluster struct {
	*kubetest.Cluster
	usher *kubetest.Usher
}

// TestNoRequestFails: the chart is installed, upgraded and uninstalled while pods are created, and none is refused.
func TestNoRequestFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := start(ctx, t)
	helm := c.helm(t)
	stop := c.load(ctx, t)
	defer stop()
	played, end := context.WithCancel(ctx)
	defer end()
	go c.play(played, t)

	chart, err := loader.Load(filepath.Join(packaged(t), "usher-0.0.1.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{"certs": "secret", "watch": false, "image": map[string]any{"tag": "e2e"}}
	install := action.NewInstall(helm)
	install.ReleaseName, install.Namespace, install.Timeout, install.WaitStrategy = "usher", "usher", time.Minute, kube.HookOnlyStrategy
	done, err := install.RunWithContext(ctx, chart, values)
	if err != nil {
		t.Fatal(err)
	}
	c.wantCalled(ctx, t, true)
	c.wantTested(ctx, t, done.(*release.Release))

	values["excludeNamespaces"], values["replicas"] = []any{"network"}, 3
	upgrade := action.NewUpgrade(helm)
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy = "usher", time.Minute, kube.HookOnlyStrategy
	if _, err := upgrade.RunWithContext(ctx, "usher", chart, values); err != nil {
		t.Fatal(err)
	}
	configuration, err := c.Admin().Get(ctx, validating)
	if err != nil || !strings.Contains(fmt.Sprint(configuration), "network") {
		t.Errorf("the upgrade did not change what is registered: %v", err)
	}
	c.wantCalled(ctx, t, true)

	uninstall := action.NewUninstall(helm)
	uninstall.Timeout, uninstall.WaitStrategy = time.Minute, kube.HookOnlyStrategy
	if _, err := uninstall.Run("usher"); err != nil {
		t.Fatal(err)
	}
	c.wantGone(ctx, t)
	time.Sleep(time.Second) // with the replicas gone, too
	stop()
}

// start starts a control plane and two replicas. Their Service is left to the chart.
func start(ctx context.Context, t *testing.T) cluster {
	t.Helper()
	c, err := kubetest.Start(ctx, kubetest.Options{Services: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("\n" + c.LogsOf(10, "kube-apiserver", "usher"))
		}
		_ = c.Stop()
	})
	usher, err := c.StartUsher(ctx, kubetest.UsherOptions{Replicas: 2})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := certificate(usher)
	if err != nil {
		t.Fatal(err)
	}
	c.MustApply(ctx, t, secret)
	c.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"admission-webhook": "enabled"}}}`)
	if _, err := c.Admin().Delete(ctx, service); err != nil {
		t.Fatal(err)
	}
	return cluster{c, usher}
}

// certificate returns the Secret with the certificate of the replicas, which is yours with certs: secret.
func certificate(u *kubetest.Usher) (string, error) {
	var data []string
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(u.CAFile), name))
		if err != nil {
			return "", err
		}
		data = append(data, fmt.Sprintf("%q: %q", name, text))
	}
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": {"name": "usher-tls", "namespace": "usher"}, "stringData": {%s}}`, strings.ReplaceAll(strings.Join(data, ", "), `\x`, `\u00`)), nil
}

// helm returns Helm's configuration for the cluster.
func (c cluster) helm(t *testing.T) *action.Configuration {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig = c.AdminKubeconfig()
	settings.SetNamespace("usher")
	made := quiet()
	if err := made.Init(settings.RESTClientGetter(), "usher", "secrets"); err != nil {
		t.Fatal(err)
	}
	return made
}

// load creates pods until it is stopped, which fails the test if any request failed.
func (c cluster) load(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	return kubetest.Load(ctx, t, 0, func(ctx context.Context) error { return c.create(ctx, "harmless") })
}

// create creates a pod as a dry run.
func (c cluster) create(ctx context.Context, name string) error {
	_, err := c.Admin().Create(ctx, pods+"?dryRun=All", kubetest.Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": kubetest.Object{"name": name}, "spec": kubetest.Object{"containers": []kubetest.Object{{"name": "c", "image": "i"}}}})
	return err
}

// wantTested does what `helm test` does: its pod is created, and its command is run beside it.
func (c cluster) wantTested(ctx context.Context, t *testing.T, r *release.Release) {
	t.Helper()
	for _, h := range r.Hooks {
		if h.Name != "usher-test" {
			continue
		}
		c.MustApply(ctx, t, h.Manifest)
		var pod kubetest.Object
		if err := yaml.Unmarshal([]byte(h.Manifest), &pod); err != nil {
			t.Fatal(err)
		}
		pod["spec"] = map[string]any{"template": map[string]any{"spec": pod["spec"]}} // as in a Job
		if out, err := c.runs(ctx, t, pod); err != nil || !strings.Contains(out, "nothing to do") {
			t.Errorf("helm test: %v\n%s", err, out)
		}
		return
	}
	t.Error("the release has no test")
}

// wantCalled fails the test unless the API server soon asks usher about pods, or no longer does.
func (c cluster) wantCalled(ctx context.Context, t *testing.T, is bool) {
	t.Helper()
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		if err := c.create(ctx, "offensive"); (err != nil) != is {
			return fmt.Errorf("called must be %t: %v", is, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// wantGone fails the test if anything of the chart is left, but the policy's namespace.
func (c cluster) wantGone(ctx context.Context, t *testing.T) {
	t.Helper()
	c.wantCalled(ctx, t, false)
	for _, path := range []string{mutating, validating, deployment, service, jobs + "/usher-webhooks-remove",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/usher-webhooks",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/usher-webhooks-remove"} {
		err := kubetest.Eventually(ctx, func(ctx context.Context) error {
			_, err := c.Admin().Get(ctx, path)
			if refused := new(kubetest.StatusError); errors.As(err, &refused) && refused.Code == http.StatusNotFound {
				return nil
			}
			return fmt.Errorf("%s is left: %v", path, err)
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// play does what the controllers and the kubelets of a cluster would do: the Deployment of the chart is rolled out after a
// second, its end ends the replicas, and each Job runs.
func (c cluster) play(ctx context.Context, t *testing.T) {
	rolledOut, installed, begun := map[float64]time.Time{}, false, map[string]bool{}
	for ctx.Err() == nil {
		d, err := c.Admin().Get(ctx, deployment)
		switch refused := new(kubetest.StatusError); {
		case err == nil:
			installed = true
			generation := d.At("metadata", "generation").(float64)
			if rolledOut[generation].IsZero() {
				rolledOut[generation] = time.Now()
			}
			if time.Since(rolledOut[generation]) > time.Second {
				c.rollOut(ctx, t, d)
			}
		case installed && errors.As(err, &refused) && refused.Code == http.StatusNotFound:
			c.usher.Stop()
			return
		}
		c.runJobs(ctx, t, begun)
		time.Sleep(100 * time.Millisecond)
	}
}

// rollOut makes the replicas of the Deployment ready.
func (c cluster) rollOut(ctx context.Context, t *testing.T, d kubetest.Object) {
	n := d.At("spec", "replicas")
	if d.At("status", "observedGeneration") == d.At("metadata", "generation") && d.At("status", "readyReplicas") == n {
		return
	}
	status := kubetest.Object{"status": kubetest.Object{"observedGeneration": d.At("metadata", "generation"), "replicas": n,
		"updatedReplicas": n, "readyReplicas": n, "availableReplicas": n}}
	if _, err := c.Admin().Patch(ctx, deployment+"/status", kubetest.MergePatch, status); err != nil && ctx.Err() == nil {
		t.Errorf("roll-out: %v", err)
	}
	err := c.Apply(ctx, `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": {"name": "usher-1", "namespace": "usher", "labels": {"kubernetes.io/service-name": "usher"}},
		"ports": [{"name": "https", "port": 9443}], "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}]}`)
	if err != nil && ctx.Err() == nil {
		t.Errorf("endpoints: %v", err)
	}
}

// runJobs starts each Job that has not begun.
func (c cluster) runJobs(ctx context.Context, t *testing.T, begun map[string]bool) {
	list, err := c.Admin().Get(ctx, jobs)
	if err != nil {
		return
	}
	for _, job := range list.List("items") {
		if uid := job.String("metadata", "uid"); !begun[uid] {
			begun[uid] = true
			go c.run(ctx, t, job)
		}
	}
}

// run runs a Job: its arguments, with the rights of its service account, and the policy of its ConfigMap.
func (c cluster) run(ctx context.Context, t *testing.T, job kubetest.Object) {
	name := job.String("metadata", "name")
	out, err := c.runs(ctx, t, job)
	if err != nil && ctx.Err() == nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	c.complete(ctx, t, name)
}

// runs runs the arguments of a Job, and returns what usher says.
func (c cluster) runs(ctx context.Context, t *testing.T, job kubetest.Object) (string, error) {
	account := job.String("spec", "template", "spec", "serviceAccountName")
	kubeconfig, err := c.Kubeconfig("system:serviceaccount:usher:"+account, "system:serviceaccounts", "system:serviceaccounts:usher")
	if err != nil {
		return "", err
	}
	return c.usher.Run(ctx, append(c.args(ctx, t, job), "--kubeconfig="+kubeconfig)...)
}

// args returns the arguments of a Job's container. Its policy is in a file of the test.
func (c cluster) args(ctx context.Context, t *testing.T, job kubetest.Object) (all []string) {
	for _, arg := range container(job)["args"].([]any) {
		all = append(all, arg.(string))
	}
	if i := slices.Index(all, "--config=/etc/usher/policy/policy.yaml"); i >= 0 {
		policy, err := c.Admin().Get(ctx, "/api/v1/namespaces/usher/configmaps/usher-policy")
		file := filepath.Join(c.Dir(), "policy-of-the-job.yaml")
		if err := errors.Join(err, os.WriteFile(file, []byte(policy.String("data", "policy.yaml")), 0o600)); err != nil {
			t.Error(err)
		}
		all[i] = "--config=" + file
	}
	return all
}

// complete marks a Job as complete.
func (c cluster) complete(ctx context.Context, t *testing.T, name string) {
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(kind string) kubetest.Object {
		return kubetest.Object{"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now,
			"reason": "CompletionsReached", "message": ""}
	}
	status := kubetest.Object{"status": kubetest.Object{"startTime": now, "completionTime": now, "succeeded": 1, "ready": 0, "terminating": 0,
		"conditions": []kubetest.Object{condition("SuccessCriteriaMet"), condition("Complete")}}}
	if _, err := c.Admin().Patch(ctx, jobs+"/"+name+"/status", kubetest.MergePatch, status); err != nil && ctx.Err() == nil {
		t.Errorf("complete %s: %v", name, err)
	}
}
