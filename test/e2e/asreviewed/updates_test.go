package asreviewed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestChangesAsReviewed: what `usherctl review --operation UPDATE --old` says of a change is what becomes of it. The objects are stored
// before usher is registered, so that some break the policy already, which rules with ratcheting forgive.
func TestChangesAsReviewed(t *testing.T) {
	ctx := cluster.Within(t, 20*time.Minute)
	d, seen := draws{kubetest.Random(t)}, map[string]int{}
	unregister(ctx, t)
	untilSeen(t, seen, []string{"allowed", "denied"}, rounds(t), func(from, to int) { reviewChanges(ctx, t, d, from, to, seen) })
	if seen["not judged"] > 0 {
		t.Errorf("%d changes were not judged", seen["not judged"])
	}
}

// reviewChanges compares changes of up to twelve objects for each of some policies.
func reviewChanges(ctx context.Context, t *testing.T, d draws, from, to int, seen map[string]int) {
	t.Helper()
	namespaces, stored := map[int][]kubetest.Object{}, map[int][]kubetest.Object{}
	for i := from; i < to; i++ {
		namespaces[i] = d.namespaces(1000 + i)
		ranges := d.limitRanges(namespaces[i])
		createNamespaces(ctx, t, namespaces[i], ranges...)
		for n := range 12 {
			if o := store(ctx, t, d.object(12*i+n, namespaces[i])); o != nil {
				stored[i] = append(stored[i], o)
			}
		}
		namespaces[i] = append(namespaces[i], ranges...) // which count for no change
	}
	for i := from; i < to; i++ {
		policy := kubetest.Encode(d.policy())
		serve(ctx, t, policy, 1000+i)
		t.Run(fmt.Sprintf("policy-%d", i), func(t *testing.T) {
			for _, old := range stored[i] {
				seen[compareChange(ctx, t, policy, namespaces[i], old, d.change(old))]++
			}
		})
	}
	unregister(ctx, t)
}

// store creates an object and returns it as stored, or nil if the API server refuses it as invalid.
func store(ctx context.Context, t *testing.T, o kubetest.Object) (stored kubetest.Object) {
	t.Helper()
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error { // webhooks that were deleted may be called for a moment
		response, err := cluster.Admin().Do(ctx, "POST", collectionOf(o), "application/json", o)
		if err != nil {
			return err
		}
		if verdict, _ := verdictOf(response); verdict == "invalid" {
			return nil
		}
		if response.Status != 201 {
			return fmt.Errorf("%d: %s", response.Status, response.Body)
		}
		stored = kubetest.Decode(string(response.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return stored
}

// change draws a change that the API server allows, of what selectors and rules ask for.
func (d draws) change(old kubetest.Object) kubetest.Object {
	o := kubetest.Decode(kubetest.Encode(old))
	if d.one(2) {
		labels := d.labels()
		if o.String("kind") == "Namespace" {
			labels["kubernetes.io/metadata.name"] = o.String("metadata", "name")
		}
		metadataOf(o)["labels"] = labels
	}
	if d.one(3) {
		metadataOf(o)["annotations"] = kubetest.Object{"example.com/note": "changed"}
	}
	switch o.String("kind") {
	case "Pod":
		d.image(o.At("spec"))
	case "Deployment", "StatefulSet", "DaemonSet":
		d.image(o.At("spec", "template", "spec"))
		if spec := o.At("spec").(map[string]any); spec["replicas"] != nil && d.one(2) {
			spec["replicas"] = d.IntN(6)
		}
	case "CronJob":
		d.image(o.At("spec", "jobTemplate", "spec", "template", "spec"))
	case "ConfigMap":
		o["data"] = kubetest.Object{pick(d, "key", "longer"): pick(d, "x", "y")}
	}
	return kubetest.Decode(kubetest.Encode(o))
}

// image draws the image of the first container anew, or leaves it.
func (d draws) image(spec any) {
	if d.one(2) {
		first := spec.(map[string]any)["containers"].([]any)[0].(map[string]any)
		first["image"] = pick(d, "nginx:1.29", "registry.example.com/a:1", "elsewhere.example.com/b:latest")
	}
}

// compareChange reviews a change, sends it to the API server as a dry run, and returns the verdict of the review.
func compareChange(ctx context.Context, t *testing.T, policy string, namespaces []kubetest.Object, old, changed kubetest.Object) string {
	t.Helper()
	r := reviewChange(ctx, t, namespaces, old, changed)
	before := counts(ctx, t)
	path := collectionOf(changed) + "/" + changed.String("metadata", "name") + "?dryRun=All"
	response, err := cluster.Admin().Do(ctx, "PUT", path, "application/json", changed)
	if err != nil {
		t.Fatal(err)
	}
	verdict, answer := verdictOf(response)
	called := since(before, counts(ctx, t))
	if why := differs(r, verdict, called, true); why != "" {
		t.Errorf("%s\npolicy: %s\nold: %s\nchanged: %s\nreview: %+v\nthe API server: %s: %s\nusher was asked: %q",
			why, policy, kubetest.Encode(old), kubetest.Encode(changed), r, verdict, answer, called)
	}
	return r.Verdict
}

// reviewChange runs `usherctl review` on a change. The Namespaces stand in a directory of their own, as they are not part of it.
func reviewChange(ctx context.Context, t *testing.T, namespaces []kubetest.Object, old, changed kubetest.Object) report {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, objects ...kubetest.Object) string {
		text := ""
		for _, o := range objects {
			text += kubetest.Encode(o) + "\n---\n"
		}
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cluster := filepath.Dir(write("cluster/namespaces.yaml", namespaces...))
	out, err := usher.Cluster().Usherctl(ctx, "review", "--config", usher.PolicyFile(), "--suite", "core", "--dry-run", "--no-templates", "--cluster-dir", cluster,
		"--operation", "UPDATE", "--old", write("old.yaml", old), "--as", "admin", "--as-group", "system:masters,system:authenticated",
		"-o", "json", write("changed.yaml", changed))
	var reports []report
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	wantExit(t, err, reports)
	return reports[0]
}

// createNamespaces creates Namespaces and objects in them.
func createNamespaces(ctx context.Context, t *testing.T, namespaces []kubetest.Object, others ...kubetest.Object) {
	t.Helper()
	for _, n := range namespaces {
		create(ctx, t, "/api/v1/namespaces", n)
		create(ctx, t, "/api/v1/namespaces/"+n.String("metadata", "name")+"/serviceaccounts", kubetest.Object{"metadata": kubetest.Object{"name": "default"}})
	}
	for _, o := range others {
		create(ctx, t, collectionOf(o), o)
	}
}
