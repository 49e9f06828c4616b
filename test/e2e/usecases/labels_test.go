package usecases

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestLabels runs the walk-through of docs/labels.md: defaults from the Namespace, refusals of workloads at the path of
// their template, and updates.
func TestLabels(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	namespace(ctx, t, "shop", kubetest.Object{"team": "web"}, nil)
	use(ctx, t, "samples/policies/label.yaml")
	manifests := manifestsOf(t, "samples/manifests/labels.yaml")
	pods, deployments := "/api/v1/namespaces/shop/pods", "/apis/apps/v1/namespaces/shop/deployments"
	awaitRefusal(ctx, t, deployments, manifests[2]) // the registration for workloads is used
	cluster.DeleteAfter(t, pods+"/plain", deployments+"/web")

	if err := create(ctx, pods, manifests[0]); err != nil {
		t.Fatal(err)
	}
	pod, err := cluster.Admin().Get(ctx, pods+"/plain")
	if err != nil {
		t.Fatal(err)
	}
	if team, tier := pod.String("metadata", "labels", "acme.com/team"), pod.String("metadata", "labels", "acme.com/tier"); team != "web" || tier != "standard" {
		t.Errorf("team %q, tier %q", team, tier)
	}
	if err := create(ctx, deployments, manifests[1]); err != nil {
		t.Errorf("what label-defaults sets on the pods is not missing in the template: %v", err)
	}
	kubetest.RefusedWith(t, create(ctx, deployments, manifests[2]), "spec.template.metadata.labels[acme.com/team]", "spec.template.metadata.labels[acme.com/tier]")
	kubetest.RefusedWith(t, create(ctx, "/apis/batch/v1/namespaces/shop/cronjobs", manifests[3]), "spec.jobTemplate.spec.template.metadata.annotations[acme.com/runbook]")
	checkLabelUpdates(ctx, t, pods+"/plain", deployments+"/web")
}

// checkLabelUpdates: an immutable label stays, other changes pass, also through the subresources and on deletion.
func checkLabelUpdates(ctx context.Context, t *testing.T, pod, deployment string) {
	t.Helper()
	label := func(path, metadata, key, value string) error {
		_, err := cluster.Admin().Patch(ctx, path, kubetest.MergePatch, fmt.Sprintf(metadata, key, value))
		return err
	}
	const own, template = `{"metadata": {"labels": {%q: %s}}}`, `{"spec": {"template": {"metadata": {"labels": {%q: %s}}}}}`
	kubetest.RefusedWith(t, label(pod, own, "acme.com/team", `"other"`), "metadata.labels[acme.com/team]", `was "web"`)
	kubetest.RefusedWith(t, label(pod, own, "acme.com/team", "null"), "metadata.labels[acme.com/team]")
	kubetest.RefusedWith(t, label(deployment, template, "acme.com/team", `"other"`), "spec.template.metadata.labels[acme.com/team]")
	if err := label(pod, own, "seen", `"yes"`); err != nil {
		t.Error(err)
	}
	if _, err := cluster.Admin().Patch(ctx, deployment+"/scale", kubetest.MergePatch, `{"spec": {"replicas": 3}}`); err != nil {
		t.Error(err)
	}
	if err := label(pod, `{"metadata": {"finalizers": [%q], "labels": {"x": %s}}}`, "example.com/keep", `"y"`); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Admin().Delete(ctx, pod+"?gracePeriodSeconds=0"); err != nil {
		t.Fatal(err)
	}
	if err := label(pod, `{"metadata": {"finalizers": null, "labels": {%q: %s}}}`, "acme.com/team", "null"); err != nil {
		t.Errorf("a pod that is being deleted passes: %v", err)
	}
}

// manifestsOf returns the documents of a file.
func manifestsOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := kubetest.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(text, "\n---\n")
}

// awaitRefusal waits until an object is refused, as a dry run: the API server uses a new registration after a moment.
func awaitRefusal(ctx context.Context, t *testing.T, path, manifest string) {
	t.Helper()
	awaitText(ctx, t, path, manifest, "denied the request")
}

// awaitText waits until the refusal of an object, as a dry run, contains a text.
func awaitText(ctx context.Context, t *testing.T, path, manifest, text string) {
	t.Helper()
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		if err := create(ctx, path+"?dryRun=All", manifest); err == nil || !strings.Contains(err.Error(), text) {
			return fmt.Errorf("the refusal is not %q: %w", text, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// create creates an object from YAML.
func create(ctx context.Context, path, manifest string) error {
	answer, err := cluster.Admin().Do(ctx, "POST", path, "application/yaml", manifest)
	if err != nil {
		return err
	}
	return answer.Err()
}
