package quota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// nodePods are the pods of one quota on one node, each with one container. The test is the kubelet of the node.
type nodePods struct {
	t                *testing.T
	namespace, quota string
}

func (s *nodePods) node() string { return s.namespace + "-node" }

// podsOnNode creates a quota, and a node with a large capacity.
func podsOnNode(ctx context.Context, t *testing.T, namespace, limit string) *nodePods {
	t.Helper()
	a, _ := departments(ctx, t, namespace, "1000", limit, "1000")
	s := &nodePods{t, namespace, a}
	newNode(ctx, t, s.node())
	_, err := cluster.Admin().Patch(ctx, "/api/v1/nodes/"+s.node()+"/status", kubetest.MergePatch,
		`{"status": {"allocatable": {"cpu": "1000"}, "capacity": {"cpu": "1000"}}}`)
	stored(t, err)
	return s
}

func (s *nodePods) create(ctx context.Context, name, cpu string) error {
	pod := newPod(name, s.quota, cpu)
	pod["spec"].(kubetest.Object)["nodeName"] = s.node()
	_, err := cluster.Admin().Create(ctx, podPath(s.namespace, ""), pod)
	return err
}

func (s *nodePods) resize(ctx context.Context, name, cpu string) error {
	_, err := cluster.Admin().Patch(ctx, podPath(s.namespace, name)+"/resize", kubetest.StrategicPatch, fmt.Sprintf(
		`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": %q}}}]}}`, cpu))
	return err
}

// report writes the status of a pod: what is allocated for its container, and what that was given; empty while it waits
// for its image. The condition says why a resize waits; empty removes it.
func (s *nodePods) report(ctx context.Context, by *kubetest.Client, name, allocated, enacted, condition string) error {
	container := kubetest.Object{"name": "c", "image": "i", "imageID": "", "state": kubetest.Object{"waiting": kubetest.Object{"reason": "ImagePullBackOff"}}}
	status := kubetest.Object{"phase": "Pending", "containerStatuses": []any{container}, "conditions": []any{}}
	if allocated != "" {
		status["phase"], container["ready"], container["imageID"] = "Running", true, "i"
		container["state"] = kubetest.Object{"running": kubetest.Object{"startedAt": "2026-01-01T00:00:00Z"}}
		container["allocatedResources"] = kubetest.Object{"cpu": allocated}
		container["resources"] = kubetest.Object{"requests": kubetest.Object{"cpu": enacted}}
	}
	if condition != "" {
		pod, err := cluster.Admin().Get(ctx, podPath(s.namespace, name))
		if err != nil {
			return err
		}
		status["conditions"] = []any{kubetest.Object{"type": "PodResizePending", "status": "True", "reason": condition,
			"observedGeneration": pod["metadata"].(map[string]any)["generation"]}}
	}
	_, err := by.Patch(ctx, podPath(s.namespace, name)+"/status", kubetest.MergePatch, kubetest.Object{"status": status})
	return err
}

func (s *nodePods) kubelet() *kubetest.Client { return cluster.Node(s.node()) }

// reports is report by the kubelet, which is never refused.
func (s *nodePods) reports(ctx context.Context, name, allocated, enacted, condition string) {
	s.t.Helper()
	stored(s.t, s.report(ctx, s.kubelet(), name, allocated, enacted, condition))
}

// TestShrinkHolds: the room of pods that were resized to less is free when their node has carried it out, not before.
func TestShrinkHolds(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	s := podsOnNode(ctx, t, "shrink", "10")
	for i := range 10 {
		name := fmt.Sprint("p-", i)
		stored(t, s.create(ctx, name, "1"))
		s.reports(ctx, name, "1", "1", "")
	}
	settled(ctx, t, s.quota, "10")
	for i := range 10 {
		stored(t, s.resize(ctx, fmt.Sprint("p-", i), "100m"))
	}
	asks(ctx, t, s.quota, "1")
	for i := range 9 {
		kubetest.RefusedWith(t, s.create(ctx, fmt.Sprint("next-", i), "1"), "quota shrink-a (via label): cpu requested 1, used 10 (1 by spec), limit 10")
	}
	for i := range 10 {
		s.reports(ctx, fmt.Sprint("p-", i), "100m", "1", "") // allocated, and not carried out
	}
	kubetest.RefusedWith(t, s.create(ctx, "next", "1"), "used 10 (1 by spec)")
	for i := range 10 {
		s.reports(ctx, fmt.Sprint("p-", i), "100m", "100m", "")
	}
	settled(ctx, t, s.quota, "1")
	for i := range 9 {
		stored(t, s.create(ctx, fmt.Sprint("next-", i), "1"))
	}
	settled(ctx, t, s.quota, "10")
	kubetest.RefusedWith(t, s.create(ctx, "last", "1"), "used 10, limit 10")
}

// asks waits until every replica has seen what the specs of the pods of a quota request, where their nodes hold
// something else.
func asks(ctx context.Context, t *testing.T, name, cpu string) {
	t.Helper()
	eventually(ctx, t, func(ctx context.Context) error {
		for i, r := range usher.Replicas {
			rows, err := report(ctx, i)
			if err != nil {
				return err
			}
			if q := find(rows, name); q == nil || len(q.Resources) != 1 || q.Resources[0].Asked != cpu {
				return fmt.Errorf("%s: %v is asked by spec in quota %s, want %s", r.Name, q, name, cpu)
			}
		}
		return nil
	})
}

// TestInfeasibleHolds: while its node calls a resize infeasible, a pod counts for what it has. A new resize counts at
// once.
func TestInfeasibleHolds(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	s := podsOnNode(ctx, t, "infeasible", "10")
	stored(t, s.create(ctx, "p", "2"))
	s.reports(ctx, "p", "2", "2", "")
	stored(t, s.resize(ctx, "p", "9"))
	settled(ctx, t, s.quota, "9")
	kubetest.RefusedWith(t, s.create(ctx, "next", "6"), "used 9, limit 10")
	s.reports(ctx, "p", "2", "2", "Infeasible")
	settled(ctx, t, s.quota, "2")
	asks(ctx, t, s.quota, "9")
	stored(t, s.create(ctx, "next", "6"))
	settled(ctx, t, s.quota, "8")
	kubetest.RefusedWith(t, s.resize(ctx, "p", "5"), "cpu requested 5, used 6, limit 10")
	stored(t, s.resize(ctx, "p", "4"))
	settled(ctx, t, s.quota, "10")
	kubetest.RefusedWith(t, s.create(ctx, "last", "1"), "used 10, limit 10")
}

// TestRestartInEveryState: replicas that are started in any state of a resize count what those count that have seen all
// of it.
func TestRestartInEveryState(t *testing.T) {
	ctx := cluster.Within(t, 4*time.Minute)
	s := podsOnNode(ctx, t, "restart", "50")
	stored(t, s.create(ctx, "p", "20"))
	for _, c := range []struct{ what, resize, allocated, enacted, condition, counts string }{
		{"not reported", "", "", "", "", "20"},
		{"to more, not reported", "30", "", "", "", "30"},
		{"to more, infeasible, not reported", "", "", "", "Infeasible", "30"},
		{"infeasible", "", "20", "20", "Infeasible", "20"},
		{"to more, no answer yet", "40", "20", "20", "", "40"},
		{"to more, deferred", "", "20", "20", "Deferred", "40"},
		{"to more, allocated", "", "40", "20", "", "40"},
		{"to more, carried out", "", "40", "40", "", "40"},
		{"to less, no answer yet", "10", "40", "40", "", "40"},
		{"to less, allocated", "", "10", "40", "", "40"},
		{"to less, carried out", "", "10", "10", "", "10"},
	} {
		if c.resize != "" {
			stored(t, s.resize(ctx, "p", c.resize))
		}
		s.reports(ctx, "p", c.allocated, c.enacted, c.condition)
		settled(ctx, t, s.quota, c.counts)
		usher.KillAll(ctx, t)()
		settled(ctx, t, s.quota, c.counts)
		kubetest.RefusedWith(t, s.create(ctx, "next", "41"), "used "+c.counts)
		t.Log(c.what)
	}
}

// TestWithdrawnResize: the room of a resize that is taken back is free at once, long before the reservation expires.
func TestWithdrawnResize(t *testing.T) {
	ctx := cluster.Within(t, expiry-2*time.Second)
	s := podsOnNode(ctx, t, "withdrawn", "10")
	stored(t, s.create(ctx, "p", "2"))
	s.reports(ctx, "p", "2", "2", "")
	stored(t, s.resize(ctx, "p", "9"))
	s.reports(ctx, "p", "2", "2", "Deferred")
	kubetest.RefusedWith(t, s.create(ctx, "next", "8"), "quota withdrawn-a")
	stored(t, s.resize(ctx, "p", "2"))
	eventually(ctx, t, func(ctx context.Context) error { return s.create(ctx, "next", "8") })
}

// TestReportsOfNodes: a kubelet is the authority on the pods of its node, and is never refused. Another client must not
// make a pod count for more than fits.
func TestReportsOfNodes(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	s := podsOnNode(ctx, t, "reports", "5")
	stored(t, s.create(ctx, "p", "2"))
	s.reports(ctx, "p", "2", "2", "")
	settled(ctx, t, s.quota, "2")
	kubetest.RefusedWith(t, s.report(ctx, cluster.Admin(), "p", "9", "2", ""), "validate-pod-status.usher.dev", "cpu requested 9 (2 by spec)", "limit 5")
	stored(t, s.report(ctx, cluster.Admin(), "p", "4", "2", ""))
	settled(ctx, t, s.quota, "4")
	s.reports(ctx, "p", "10", "10", "")
	settled(ctx, t, s.quota, "10")
	kubetest.RefusedWith(t, s.create(ctx, "next", "1"), "used 10 (2 by spec), limit 5")
	stored(t, s.resize(ctx, "p", "7")) // no more than its node holds
	s.reports(ctx, "p", "7", "7", "")
	settled(ctx, t, s.quota, "7")
}
