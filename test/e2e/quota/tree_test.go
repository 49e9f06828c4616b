package quota

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// laggard starts a replica whose watch of the quotas stalls once it has admitted a pod. The others are asked until
// through selects it.
func laggard(ctx context.Context, t *testing.T, namespace, leaf string) (late *kubetest.Usher, line *slowLine, through func(*kubetest.Usher)) {
	t.Helper()
	late, line, through = lateUsher(ctx, t, "usher-"+namespace, expiry)
	through(late)
	stored(t, createPod(ctx, namespace, "first", leaf, "1")) // its watches work
	through(usher)
	line.hold(quotaWatch)
	return late, line, through
}

// storedUnlessSwept fails the test unless a pod was stored that the announced change does not concern. Another replica
// that has observed the change removes the announcement at any time; a replica that has not then decides on nothing in
// this tree.
func storedUnlessSwept(ctx context.Context, t *testing.T, namespace string, err error) {
	t.Helper()
	if found, _ := record(ctx, t, namespace, namespace+"-all"); outcome(err) == outOfReach && !strings.Contains(found, `"changes":`) {
		t.Log("another replica has just removed the announcement")
		return
	}
	stored(t, err)
}

// none fails the test if any of twenty pods at once is stored.
func none(ctx context.Context, t *testing.T, namespace, label, cpu string) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := createPod(ctx, namespace, fmt.Sprint("none-", i), label, cpu); outcome(err) != outOfReach && outcome(err) != fullUp {
				t.Errorf("a pod in quota %q of namespace %s: %s", label, namespace, outcome(err))
			}
		})
	}
	all.Wait()
}

// refusedSoon waits until a pod is refused for lack of room.
func refusedSoon(ctx context.Context, t *testing.T, namespace, label, cpu string) {
	t.Helper()
	eventually(ctx, t, func(ctx context.Context) error {
		if err := createPod(ctx, namespace, "last", label, cpu); outcome(err) != fullUp {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
}

func patchQuota(ctx context.Context, t *testing.T, namespace, name string, patch kubetest.Object) {
	t.Helper()
	_, err := cluster.Admin().Patch(ctx, quotaPath(namespace, name), kubetest.MergePatch, patch)
	stored(t, err)
}

// TestLoweredAtOnce: a lower limit counts also on a replica whose watch has not shown it. The pods of other quotas are
// admitted there all the same.
func TestLoweredAtOnce(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	a, b := departments(ctx, t, "lowered", "99", "44", "44")
	late, line, through := laggard(ctx, t, "lowered", a)
	patchQuota(ctx, t, "lowered", a, kubetest.Object{"spec": kubetest.Object{"max": kubetest.Object{"cpu": "1"}}})
	through(late)
	storedUnlessSwept(ctx, t, "lowered", createPod(ctx, "lowered", "other", b, "1"))
	none(ctx, t, "lowered", a, "1")
	line.release()
	refusedSoon(ctx, t, "lowered", a, "1")
}

// TestReparentAtOnce: the pods of a quota that gets another parent count there also on a replica whose watch has not shown
// it.
func TestReparentAtOnce(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	a, b := departments(ctx, t, "adopted", "99", "44", "44")
	for _, q := range []kubetest.Object{newQuota("adopted", "adopted-mid", "adopted-all", "4", true), newQuota("adopted", "adopted-m", "adopted-mid", "4", false)} {
		_, err := cluster.Admin().Create(ctx, quotaPath("adopted", ""), q)
		stored(t, err)
	}
	stored(t, createPod(ctx, "adopted", "existing", a, "3"))
	late, line, through := laggard(ctx, t, "adopted", "adopted-m")
	patchQuota(ctx, t, "adopted", a, kubetest.Object{"metadata": kubetest.Object{"labels": kubetest.Object{prefix + "parent": "adopted-mid"}}})
	through(late)
	storedUnlessSwept(ctx, t, "adopted", createPod(ctx, "adopted", "other", b, "1"))
	none(ctx, t, "adopted", "adopted-m", "1")
	line.release()
	refusedSoon(ctx, t, "adopted", "adopted-m", "1")
}

// TestMovedNamespaceAtOnce: the pods of a namespace that moves to a quota of another tree are not admitted to the old one
// by a replica whose watch has not shown it.
func TestMovedNamespaceAtOnce(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	lists := func(namespaces string) kubetest.Object {
		return kubetest.Object{"metadata": kubetest.Object{"annotations": kubetest.Object{prefix + "namespaces": namespaces}}}
	}
	a, _ := departments(ctx, t, "moved", "99", "44", "44")
	elsewhere, _ := departments(ctx, t, "elsewhere", "9", "1", "1")
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "moved-team", "labels": {"other-webhook": "yes"}}}`)
	t.Cleanup(func() { raze("moved-team") })
	patchQuota(ctx, t, "moved", a, lists(`["moved-team"]`))
	eventually(ctx, t, func(ctx context.Context) error {
		if err := createPod(ctx, "moved-team", "huge", "", "50"); outcome(err) != fullUp {
			return fmt.Errorf("not in quota %s yet: %w", a, err)
		}
		return nil
	})
	late, line, through := laggard(ctx, t, "moved", a)
	patchQuota(ctx, t, "moved", a, lists(`[]`))
	eventually(ctx, t, func(ctx context.Context) error { // refused as long as a replica knows that another quota lists it
		_, err := cluster.Admin().Patch(ctx, quotaPath("elsewhere", elsewhere), kubetest.MergePatch, lists(`["moved-team"]`))
		return err
	})
	through(late)
	none(ctx, t, "moved-team", "", "2")
	line.release()
	refusedSoon(ctx, t, "moved-team", "", "2")
}
