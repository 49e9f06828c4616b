package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestQuotaRoutes: defaults are set, a change that would break the tree is refused, and a quota with pods cannot be
// deleted.
func TestQuotaRoutes(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "routes", "4", "2", "2")
	object, err := cluster.Admin().Get(ctx, quotaPath("routes", "routes-all"))
	stored(t, err)
	if parent := object.String("metadata", "labels", prefix+"parent"); parent != "koordinator-root-quota" {
		t.Errorf("the parent is %q", parent)
	}
	if weight := object.String("metadata", "annotations", prefix+"shared-weight"); weight != `{"cpu":"4"}` {
		t.Errorf("the shared weight is %q", weight)
	}
	reparent := func(name, parent string) error {
		_, err := cluster.Admin().Patch(ctx, quotaPath("routes", name), kubetest.MergePatch, kubetest.Object{"metadata": kubetest.Object{"labels": kubetest.Object{prefix + "parent": parent}}})
		return err
	}
	kubetest.RefusedWith(t, reparent("routes-all", a), "routes-all -> routes-a -> routes-all")
	kubetest.RefusedWith(t, reparent(a, "nowhere"), "nowhere", "create the parent first")
	stored(t, createPod(ctx, "routes", "p", a, "1"))
	settled(ctx, t, a, "1")
	_, err = cluster.Admin().Delete(ctx, quotaPath("routes", a))
	kubetest.RefusedWith(t, err, "routes-a has 1 pod (routes/p)")
	_, err = cluster.Admin().Delete(ctx, quotaPath("routes", "routes-all"))
	kubetest.RefusedWith(t, err, "has children")
	deletePod(ctx, t, "routes", "p")
	settled(ctx, t, a, "0")
	_, err = cluster.Admin().Delete(ctx, quotaPath("routes", a))
	stored(t, err)
}

// TestNamespaceGoes: a namespace with pods and quotas can be deleted, in any order of the objects.
func TestNamespaceGoes(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "going", "4", "2", "2")
	stored(t, createPod(ctx, "going", "p", a, "1"))
	settled(ctx, t, a, "1")
	_, err := cluster.Admin().Delete(ctx, "/api/v1/namespaces/going")
	stored(t, err)
	eventually(ctx, t, func(ctx context.Context) error { // like the controller manager, the worst order first
		for _, name := range []string{"going-all", a} {
			if _, err := cluster.Admin().Delete(ctx, quotaPath("going", name)); err != nil && !strings.Contains(err.Error(), "NotFound") {
				return err
			}
		}
		return nil
	})
}

// TestReplaceKeepsRecord: a PUT of a manifest without the record, or with another one, keeps the stored record.
func TestReplaceKeepsRecord(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "replaced", "4", "2", "2")
	withOther(ctx, t, nil)
	front.refused.Store(100)
	t.Cleanup(front.calm)
	kubetest.RefusedWith(t, createPod(ctx, "replaced", "p", a, "2"), "other.example.com") // leaves a reservation without a pod
	front.calm()
	before, version := record(ctx, t, "replaced", "replaced-all")
	if !strings.Contains(before, "replaced/p") {
		t.Fatalf("there is no record: %s", before)
	}
	for _, annotation := range []string{"", "{}", `{"seen":"9999999999"}`} {
		manifest := newQuota("replaced", "replaced-all", "", "5", true)
		manifest["metadata"].(kubetest.Object)["resourceVersion"] = version
		if annotation != "" {
			manifest["metadata"].(kubetest.Object)["annotations"] = kubetest.Object{recordOf: annotation}
		}
		_, err := cluster.Admin().Update(ctx, quotaPath("replaced", "replaced-all"), manifest)
		stored(t, err)
		var after string
		if after, version = record(ctx, t, "replaced", "replaced-all"); after != before {
			t.Errorf("%q replaced the record with %q", annotation, after)
		}
	}
	kubetest.RefusedWith(t, createPod(ctx, "replaced", "q", a, "1"), "reserved 2")
}

// TestLimits: the annotation admission replaces spec.max, and after a limit is raised, a refused pod is admitted.
func TestLimits(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "limits", "9", "2", "2")
	annotate := func(text string) {
		_, err := cluster.Admin().Patch(ctx, quotaPath("limits", a), kubetest.MergePatch, kubetest.Object{"metadata": kubetest.Object{"annotations": kubetest.Object{prefix + "admission": text}}})
		stored(t, err)
	}
	annotate(`{"cpu": "1"}`)
	eventually(ctx, t, func(ctx context.Context) error {
		for range 2 * len(usher.Replicas) {
			_, err := cluster.Admin().Create(ctx, podPath("limits", "")+"?dryRun=All", newPod("p", a, "2"))
			if err == nil || !strings.Contains(err.Error(), "limit 1 (annotation quota.scheduling.koordinator.sh/admission)") {
				return fmt.Errorf("the annotation is not in force: %w", err)
			}
		}
		return nil
	})
	annotate(`{"cpu": "3"}`)
	eventually(ctx, t, func(ctx context.Context) error { return createPod(ctx, "limits", "p", a, "3") })
}

// TestDebug: the quotas report of the operations listener.
func TestDebug(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "debug", "4", "2", "3")
	stored(t, createPod(ctx, "debug", "p", a, "1500m"))
	settled(ctx, t, "debug-all", "1500m")
	rows, err := report(ctx, 0)
	stored(t, err)
	if q := find(rows, "debug-all"); len(q.Children) != 2 || q.Resources[0].Limit != "4" || q.Resources[0].Source != "spec.max" || q.Namespace != "debug" {
		t.Errorf("JSON: %+v", q)
	}
	_, text, err := usher.Replicas[0].Get(ctx, "/debug/quotas")
	stored(t, err)
	for _, line := range []string{"debug-all (namespace debug, parent)\n", "\n  debug-a (namespace debug)\n", "1500m"} {
		if !strings.Contains("\n"+text, line) {
			t.Errorf("the text lacks %q:\n%s", line, text)
		}
	}
	_, metrics, err := usher.Replicas[0].Get(ctx, "/metrics")
	stored(t, err)
	for _, name := range []string{`usher_quota_writes_total{result="written"}`, "usher_quota_reservations "} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no metric %s", name)
		}
	}
}

func decode(t *testing.T, text []byte) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	return object
}
