package quota

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.dev/usher/e2e/kubetest"
)

// departments creates a tree of two teams below one department; the names have a prefix, because quota names are
// global.
func departments(ctx context.Context, t *testing.T, name, top, a, b string) (teamA, teamB string) {
	t.Helper()
	teamA, teamB = name+"-a", name+"-b"
	grow(ctx, t, name, newQuota(name, name+"-all", "", top, true),
		newQuota(name, teamA, name+"-all", a, false), newQuota(name, teamB, name+"-all", b, false))
	return teamA, teamB
}

// TestFull: pods are admitted until the quota is full, then until the department is, and the refusal contains all
// numbers.
func TestFull(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, b := departments(ctx, t, "full", "5", "3", "4")
	for i := range 3 {
		stored(t, createPod(ctx, "full", fmt.Sprint("a-", i), a, "1"))
	}
	err := createPod(ctx, "full", "a-3", a, "1")
	kubetest.RefusedWith(t, err, "validate-pod.usher.dev", "quota full-a (via label)", "cpu requested 1, ", ", limit 3 (spec.max)", "free some of it, or raise the limit")
	stored(t, createPod(ctx, "full", "b-0", b, "1500m"))
	settled(ctx, t, "full-all", "4500m")
	kubetest.RefusedWith(t, createPod(ctx, "full", "b-1", b, "600m"), "quota full-all, parent of full-b (via label)", "cpu requested 600m, used 4500m, limit 5 (spec.max)")
	stored(t, createPod(ctx, "full", "b-2", b, "500m"))
	kubetest.RefusedWith(t, createPod(ctx, "full", "huge", a, "6"), "ask for less, or raise the limit")
	kubetest.RefusedWith(t, createPod(ctx, "full", "typo", "full-c", "1"), "full-c", "no elastic quota has this name")
	kubetest.RefusedWith(t, createPod(ctx, "full", "boss", "full-all", "1"), "full-all")
	stored(t, createPod(ctx, "full", "nobodys", "", "100"))
}

// TestUnknownName: a replica asks the API server for a quota that its watch has not shown. A pod that names a quota
// which has just been created is admitted, through any replica; a pod that names a missing quota is refused.
func TestUnknownName(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	departments(ctx, t, "unknown", "20", "1", "1")
	before := asksOf(ctx, t)
	for i := range 10 {
		name := fmt.Sprint("unknown-new-", i)
		_, err := cluster.Admin().Create(ctx, quotaPath("unknown", ""), newQuota("unknown", name, "unknown-all", "1", false))
		stored(t, err)
		stored(t, createPod(ctx, "unknown", fmt.Sprint("new-", i), name, "1"))
		kubetest.RefusedWith(t, createPod(ctx, "unknown", "typo", fmt.Sprint("unknown-typo-", i), "1"), "no elastic quota has this name")
	}
	if asked := asksOf(ctx, t) - before; asked < 10 {
		t.Errorf("the replicas asked %d times", asked)
	}
}

// asksOf returns how often the replicas have asked the API server for a quota by name.
func asksOf(ctx context.Context, t *testing.T) (all int) {
	t.Helper()
	for _, r := range usher.Replicas {
		_, metrics, err := r.Get(ctx, "/metrics")
		stored(t, err)
		_, rest, _ := strings.Cut(metrics, `usher_quota_reads_total{reason="name"} `)
		var n int
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatal(err)
		}
		all += n
	}
	return all
}

// TestRoomComesBack: room is released by a deletion, by termination, by a deletion that is never completed, and by an
// expiry.
func TestRoomComesBack(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "back", "2", "2", "2")
	stored(t, createPod(ctx, "back", "deleted", a, "2"))
	deletePod(ctx, t, "back", "deleted")
	settled(ctx, t, a, "0")
	stored(t, createPod(ctx, "back", "ended", a, "2"))
	kubetest.RefusedWith(t, createPod(ctx, "back", "other", a, "2"), "limit 2")
	_, err := cluster.Admin().Patch(ctx, podPath("back", "ended")+"/status", kubetest.MergePatch, `{"status": {"phase": "Succeeded"}}`)
	stored(t, err)
	settled(ctx, t, a, "0")

	pod := newPod("stuck", a, "2")
	pod["spec"].(kubetest.Object)["nodeName"] = "nowhere" // with no kubelet to complete its deletion
	_, err = cluster.Admin().Create(ctx, podPath("back", ""), pod)
	stored(t, err)
	_, err = cluster.Admin().Do(ctx, "DELETE", podPath("back", "stuck"), "application/json", `{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 1}`)
	stored(t, err)
	eventually(ctx, t, func(ctx context.Context) error { return createPod(ctx, "back", "successor", a, "2") })
}

// TestDryRun: a dry run is checked like any other request, and nothing is written.
func TestDryRun(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "dry", "2", "2", "2")
	shows(ctx, t, "dry", "dry-all", `{"binds":{"cpu":"dry-all"},"limit":{"cpu":"2"},"reserved":{},"used":{"cpu":"0"}}`) // or else it is written later
	_, version := record(ctx, t, "dry", "dry-all")
	for i := range 6 { // together they would not fit
		_, err := cluster.Admin().Create(ctx, podPath("dry", "")+"?dryRun=All", newPod(fmt.Sprint("p-", i), a, "1"))
		stored(t, err)
	}
	_, err := cluster.Admin().Create(ctx, podPath("dry", "")+"?dryRun=All", newPod("large", a, "3"))
	kubetest.RefusedWith(t, err, "quota dry-a", "requested 3")
	if text, now := record(ctx, t, "dry", "dry-all"); text != "" || now != version {
		t.Errorf("a dry run wrote: %s, version %s after %s", text, now, version)
	}
	stored(t, createPod(ctx, "dry", "real", a, "2"))
	if text, now := record(ctx, t, "dry", "dry-all"); now == version || !strings.Contains(text, "dry/real") && !strings.Contains(text, "seen") {
		t.Errorf("a pod left no record: %s", text)
	}
}

// TestGenerateName: the API server has generated the name and the UID before it calls validating webhooks, so usher can
// identify the pod.
func TestGenerateName(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "generated", "1", "1", "1")
	asked := make(chan *admissionv1.AdmissionRequest, 100)
	see := func(r *admissionv1.AdmissionRequest) { asked <- r }
	withOther(ctx, t, &see)
	for len(asked) > 0 {
		<-asked
	}
	pod := newPod("", a, "1")
	delete(pod["metadata"].(kubetest.Object), "name")
	pod["metadata"].(kubetest.Object)["generateName"] = "worker-"
	made, err := cluster.Admin().Create(ctx, podPath("generated", ""), pod)
	stored(t, err)
	var meta struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	request := <-asked
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(decode(t, request.Object.Raw), &meta); err != nil {
		t.Fatal(err)
	}
	if meta.Name != made.String("metadata", "name") || string(meta.UID) != made.String("metadata", "uid") || meta.UID == "" {
		t.Errorf("the webhook saw name %q and UID %q, stored are %v", meta.Name, meta.UID, made["metadata"])
	}
	settled(ctx, t, a, "1")
	pod["metadata"].(kubetest.Object)["generateName"] = "second-"
	_, err = cluster.Admin().Create(ctx, podPath("generated", ""), pod)
	kubetest.RefusedWith(t, err, "quota generated-a", "used 1")
}

// TestMoveAndResize: a label change moves a pod to another quota only if it fits there; an in-place resize needs room.
func TestMoveAndResize(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, b := departments(ctx, t, "moves", "4", "2", "3")
	stored(t, createPod(ctx, "moves", "one", a, "2"))
	stored(t, createPod(ctx, "moves", "two", b, "2"))
	settled(ctx, t, "moves-all", "4")
	move := func(pod, to string) error {
		_, err := cluster.Admin().Patch(ctx, podPath("moves", pod), kubetest.MergePatch, kubetest.Object{"metadata": kubetest.Object{"labels": kubetest.Object{prefix + "name": to}}})
		return err
	}
	resize := func(pod, cpu string) error {
		_, err := cluster.Admin().Patch(ctx, podPath("moves", pod)+"/resize", kubetest.StrategicPatch, fmt.Sprintf(
			`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": %q}}}]}}`, cpu))
		return err
	}
	kubetest.RefusedWith(t, move("one", b), "quota moves-b (via label)", "requested 2, used 2, limit 3")
	kubetest.RefusedWith(t, resize("two", "2500m"), "quota moves-all", "requested 2500m, used 2, limit 4")
	stored(t, resize("two", "1"))
	settled(ctx, t, b, "1")
	stored(t, move("one", b))
	settled(ctx, t, b, "3")
	settled(ctx, t, a, "0")
	kubetest.RefusedWith(t, resize("two", "1100m"), "quota moves-b", "limit 3")
	stored(t, resize("two", "500m"))
	settled(ctx, t, b, "2500m")
	stored(t, resize("two", "1"))
}

// TestReservationsGo: when every replica has seen the pod, the record is cleaned up even if no other pod is created.
func TestReservationsGo(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, _ := departments(ctx, t, "tidy", "9", "9", "9")
	for i := range 5 {
		stored(t, createPod(ctx, "tidy", fmt.Sprint("p-", i), a, "1"))
	}
	settled(ctx, t, a, "5")
	empty(ctx, t, "tidy", "tidy-all")
}

// TestRefusedByAnother: a pod that another webhook refuses, or whose answer is lost, keeps its reservation only until
// the expiry.
func TestRefusedByAnother(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	a, b := departments(ctx, t, "others", "4", "2", "2")
	withOther(ctx, t, nil)
	front.refused.Store(100)
	t.Cleanup(front.calm)
	kubetest.RefusedWith(t, createPod(ctx, "others", "refused", a, "2"), "other.example.com")
	front.calm()
	kubetest.RefusedWith(t, createPod(ctx, "others", "soon", a, "2"), "quota others-a (via label)", "used 0, reserved 2, limit 2")
	stored(t, createPod(ctx, "others", "refused", a, "2")) // the same name: a retry, which is reserved once
	front.lost.Store(100)
	if err := createPod(ctx, "others", "unheard", b, "2"); err == nil {
		t.Error("stored without an answer")
	}
	front.calm()
	kubetest.RefusedWith(t, createPod(ctx, "others", "next", b, "2"), "reserved 2")
	eventually(ctx, t, func(ctx context.Context) error { return createPod(ctx, "others", "next", b, "2") })
}

// withOther registers the other webhook until the test ends, and waits until it is called; see is called with its
// reviews.
func withOther(ctx context.Context, t *testing.T, see *func(*admissionv1.AdmissionRequest)) {
	t.Helper()
	t.Cleanup(func() {
		front.review.Store(nil)
		ctx, cancel := context.WithTimeout(context.Background(), cleaning)
		defer cancel()
		_, _ = cluster.Admin().Delete(ctx, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/zz-other")
	})
	front.calm()
	_, err := cluster.Admin().Create(ctx, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", front.otherWebhook())
	stored(t, err)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other-probe", "labels": {"other-webhook": "yes"}}}`)
	before := front.refusedCount.Load()
	front.refused.Store(100)
	eventually(ctx, t, func(ctx context.Context) error {
		_, err := cluster.Admin().Create(ctx, podPath("other-probe", "")+"?dryRun=All", newPod("probe", "", "1"))
		if front.refusedCount.Load() == before {
			return fmt.Errorf("the other webhook is not called; %w", err)
		}
		return nil
	})
	front.calm()
	front.review.Store(see)
}
