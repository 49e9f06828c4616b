package quota

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// What a tenant may do as often as he likes, and in what order he likes, within the rights that he has.

// TestTenantRepeats: the same request fifty times at once counts once for one name, and for generated names as often as
// there is room.
func TestTenantRepeats(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	history := watch(ctx, t, "repeats")
	a, b := departments(ctx, t, "repeats", "8", "4", "4")
	one, many := newPod("one", a, "3"), newPod("", b, "1")
	many["metadata"].(kubetest.Object)["generateName"] = "many-"
	delete(many["metadata"].(kubetest.Object), "name")
	results := map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 50 {
		for name, pod := range map[string]kubetest.Object{"one": one, "many": many} {
			all.Go(func() {
				if _, err := cluster.Admin().Create(ctx, podPath("repeats", ""), pod); err == nil {
					mu.Lock()
					defer mu.Unlock()
					results[name]++
				}
			})
		}
	}
	all.Wait()
	if results["one"] != 1 || results["many"] > 4 {
		t.Errorf("stored: %v", results)
	}
	settled(ctx, t, a, "3")
	empty(ctx, t, "repeats", "repeats-all")
	stored(t, createPod(ctx, "repeats", "rest", a, "1"))
	for n := results["many"]; n < 4; n++ {
		eventually(ctx, t, func(ctx context.Context) error { return createPod(ctx, "repeats", fmt.Sprint("rest-", n), b, "1") })
	}
	kubetest.RefusedWith(t, createPod(ctx, "repeats", "over", b, "1"), "limit 4")
	history.check(ctx, t)
}

// TestTenantAgain: a pod that is deleted and created under one name, larger each time and by several clients at once,
// never takes the quota above its limit.
func TestTenantAgain(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	history := watch(ctx, t, "again")
	a, _ := departments(ctx, t, "again", "4", "3", "4")
	stored(t, createPod(ctx, "again", "other", a, "1"))
	var all sync.WaitGroup
	for client := range 4 {
		all.Go(func() {
			for n := range 12 {
				_ = createPod(ctx, "again", "same", a, fmt.Sprintf("%dm", 100+200*((n+client)%12)))
				_, _ = cluster.Admin().Delete(ctx, podPath("again", "same"))
			}
		})
	}
	all.Wait()
	if told := history.check(ctx, t); told.Added < 5 || told.Deleted < 5 {
		t.Errorf("too little happened: %d pods added, %d deleted", told.Added, told.Deleted)
	}
	settled(ctx, t, a, "1")
}

// TestTenantManyNames: pods that another webhook refuses leave reservations. The reservations of one namespace may fill
// half of the record; pods of other namespaces are admitted all the same.
func TestTenantManyNames(t *testing.T) {
	ctx := cluster.Within(t, 4*time.Minute)
	top, a, b := newQuota("names", "names-all", "", "100", true), newQuota("names", "names-a", "names-all", "50", false), newQuota("names", "names-b", "names-all", "50", false)
	wide := kubetest.Object{} // what makes a reservation long, so that few are enough
	for i := range 30 {
		resource := fmt.Sprintf("example.com/%s%d", strings.Repeat("x", 56), i)
		wide[resource] = "1"
		for _, q := range []kubetest.Object{top, a, b} {
			q["spec"].(kubetest.Object)["max"].(kubetest.Object)[resource] = "100000"
		}
	}
	grow(ctx, t, "names", top, a, b)
	grow(ctx, t, "names-neighbour")
	withOther(ctx, t, nil)
	front.refused.Store(100)
	t.Cleanup(front.calm)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "names-neighbour", "labels": {"other-webhook": "no"}}}`)
	neighbour := func(ctx context.Context) error {
		_, err := cluster.Admin().Create(ctx, podPath("names-neighbour", ""), newPod("p", "names-b", "1"))
		return err
	}
	flood, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var begun atomic.Int64
	for range 16 {
		all.Go(func() {
			for flood.Err() == nil {
				pod := newPod(fmt.Sprint("never-", begun.Add(1)), "names-a", "1m")
				requests := kubetest.Object{"cpu": "1m"}
				maps.Copy(requests, wide)
				pod["spec"].(kubetest.Object)["containers"].([]any)[0].(kubetest.Object)["resources"] = kubetest.Object{"requests": requests, "limits": wide}
				if _, err := cluster.Admin().Create(flood, podPath("names", ""), pod); err == nil {
					t.Error("stored, although another webhook refuses it")
				}
			}
		})
	}
	t.Cleanup(all.Wait)
	t.Cleanup(stop)
	const half = 100 << 10
	eventually(ctx, t, func(ctx context.Context) error {
		text, _ := record(ctx, t, "names", "names-all")
		if len(text) > half+1000 {
			t.Errorf("the record has %d bytes of one namespace", len(text))
		}
		if len(text) < half-5000 {
			return fmt.Errorf("the record has only %d bytes after %d pods", len(text), begun.Load())
		}
		return nil
	})
	stored(t, neighbour(ctx))
}

// TestTenantResizes: neither several steps, nor a deletion, nor a priority, nor ephemeral containers get a pod above the
// limit.
func TestTenantResizes(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "steps", "8", "4", "4")
	resize := func(pod, cpu string) error {
		_, err := cluster.Admin().Patch(ctx, podPath("steps", pod)+"/resize", kubetest.StrategicPatch, fmt.Sprintf(
			`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": %q}}}]}}`, cpu))
		return err
	}
	stored(t, createPod(ctx, "steps", "one", a, "2"))
	kubetest.RefusedWith(t, resize("one", "5"), "limit 4")
	stored(t, resize("one", "3"))
	kubetest.RefusedWith(t, resize("one", "4100m"), "limit 4")
	pod := newPod("important", a, "2")
	pod["spec"].(kubetest.Object)["priorityClassName"] = "system-cluster-critical"
	_, err := cluster.Admin().Create(ctx, podPath("steps", ""), pod)
	kubetest.RefusedWith(t, err, "quota steps-a", "requested 2, used 3, limit 4")
	_, err = cluster.Admin().Patch(ctx, podPath("steps", "one")+"/ephemeralcontainers", kubetest.StrategicPatch,
		`{"spec": {"ephemeralContainers": [{"name": "e", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "50"}}}]}}`)
	kubetest.RefusedWith(t, err, "ephemeralContainers")
	renamed := newPod("renamed", a, "1")
	renamed["metadata"].(kubetest.Object)["annotations"] = kubetest.Object{"pod.koordinator.sh/replace-resources": "cpu:"}
	_, err = cluster.Admin().Create(ctx, podPath("steps", ""), renamed)
	stored(t, err)
	settled(ctx, t, a, "4")
	kubetest.RefusedWith(t, createPod(ctx, "steps", "over", a, "100m"), "used 4, limit 4")

	deletePod(ctx, t, "steps", "renamed")
	settled(ctx, t, a, "3")
	ending := newPod("ending", a, "500m")
	ending["spec"].(kubetest.Object)["nodeName"] = "nowhere"
	_, err = cluster.Admin().Create(ctx, podPath("steps", ""), ending)
	stored(t, err)
	_, err = cluster.Admin().Do(ctx, "DELETE", podPath("steps", "ending"), "application/json", `{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 600}`)
	stored(t, err)
	if err := resize("ending", "3"); err == nil {
		t.Error("a pod that is being deleted was resized above the limit")
	}
	deletePod(ctx, t, "steps", "ending")
}

// TestTenantRenames: where the gates let an annotation rename what a pod counts for, a change of the annotation is judged
// like a resize.
func TestTenantRenames(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "renames", "8", "4", "4")
	renaming, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: "usher-renames", Flags: []string{
		"--cluster=api", "--kubeconfig=" + cluster.Dir() + "/" + usherUser + ".kubeconfig", "--quota-reservation-expiry=" + expiry.String(),
		"--feature-gates=" + gates + ",ElasticQuotaEvaluationTransformPod=true,ReplaceResourcesTransformer=true"}})
	stored(t, err)
	t.Cleanup(renaming.Stop)
	t.Cleanup(func() { stored(t, front.lead(usher)) })
	stored(t, front.lead(renaming))
	const key = "pod.koordinator.sh/replace-resources"
	pod := newPod("renamed", a, "3")
	pod["metadata"].(kubetest.Object)["annotations"] = kubetest.Object{key: "cpu:"}
	_, err = cluster.Admin().Create(ctx, podPath("renames", ""), pod)
	stored(t, err)
	stored(t, createPod(ctx, "renames", "honest", a, "2"))
	for _, value := range []string{"null", `""`, `"cpu:cpu"`} {
		_, err = cluster.Admin().Patch(ctx, podPath("renames", "renamed"), kubetest.MergePatch, fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, key, value))
		kubetest.RefusedWith(t, err, "quota renames-a (via label)", "cpu requested 3, used ", "limit 4")
	}
	_, err = cluster.Admin().Patch(ctx, podPath("renames", "renamed"), kubetest.MergePatch, fmt.Sprintf(`{"metadata": {"annotations": {%q: "cpu:example.com/cores"}}}`, key))
	stored(t, err)
}
