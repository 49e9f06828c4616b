package quota

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/e2e/kubetest"
	"usher.dev/usher/e2e/quota/checker"
)

// heldTrial is a trial in which nodes hold something else than pods ask: its clients also resize pods, which hollow
// kubelets carry out later, and change quotas.
type heldTrial struct {
	*trial
	nodes  []string
	within time.Duration // a resize is carried out
}

// TestHeld: no quota ever holds more than its limit, counted by what the nodes of its pods hold, although pods are
// resized, quotas change, watches are late, and replicas and the API server are killed.
func TestHeld(t *testing.T) {
	if os.Getenv("USHER_SOAK") != "" {
		t.Skip("the soak does more of it")
	}
	ctx := cluster.Within(t, 5*time.Minute)
	h := newHeldTrial(ctx, t, "held", gates, 3, 24, 2000, 5*time.Second)
	h.run(ctx, func(done <-chan struct{}) { h.killBoth(ctx, 500, 1200, done) })
	h.end(ctx)
}

// TestSoakHeld is the same test for `make soak`: 100,000 operations, or USHER_SOAK_OPERATIONS.
func TestSoakHeld(t *testing.T) {
	soakTime(t)
	ctx := cluster.Within(t, time.Hour)
	h := newHeldTrial(ctx, t, "held", gates, tight(operations(t)), 64, operations(t), 30*time.Second)
	h.run(ctx, func(done <-chan struct{}) { h.chaos(ctx, done) })
	h.end(ctx)
}

// TestGrants is TestHeld with quotas that have room for many pods, which replicas admit against grants.
func TestGrants(t *testing.T) {
	if os.Getenv("USHER_SOAK") != "" {
		t.Skip("the soak does more of it")
	}
	ctx := cluster.Within(t, 5*time.Minute)
	h := newGrantsTrial(ctx, t, 24, 3000)
	h.run(ctx, func(done <-chan struct{}) { h.killBoth(ctx, 800, 1800, done) })
	h.end(ctx)
}

// TestSoakGrants is the same test for `make soak`.
func TestSoakGrants(t *testing.T) {
	soakTime(t)
	ctx := cluster.Within(t, time.Hour)
	h := newGrantsTrial(ctx, t, 64, operations(t))
	h.run(ctx, func(done <-chan struct{}) { h.chaos(ctx, done) })
	h.end(ctx)
}

func newGrantsTrial(ctx context.Context, t *testing.T, clients, operations int) *heldTrial {
	h := newHeldTrial(ctx, t, "granted", gates, max(30, operations/300), clients, operations, 5*time.Second)
	h.crowd.enough = func() bool { return h.checker.Told().Granted >= operations/20 }
	return h
}

// TestSoakHeldGateOff: if pods are counted by their spec, the same check finds quotas that hold more than their limit.
func TestSoakHeldGateOff(t *testing.T) {
	soakTime(t)
	ctx := cluster.Within(t, 20*time.Minute)
	h := newHeldTrial(ctx, t, "spec", gates+",QuotaByAllocatedResources=false", tight(operations(t)/10), 64, operations(t)/10, 30*time.Second)
	h.crowd.act, h.crowd.enough = squeeze, func() bool { return true }
	h.run(ctx, func(done <-chan struct{}) { <-done })
	told := h.checker.finish(ctx, t).Told()
	h.sum(told)
	t.Log(&h.crowd.counts)
	if len(told.Overshoots) == 0 {
		t.Error("the checker finds nothing where pods are counted by their spec: it cannot fail")
	}
}

// operations returns the number of operations of a soak.
func operations(t *testing.T) int {
	t.Helper()
	text := os.Getenv("USHER_SOAK_OPERATIONS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	stored(t, err)
	return n
}

// tight returns the scale of quotas that are full most of the time.
func tight(operations int) int { return min(max(operations/700, 3), 10) }

// newHeldTrial creates quotas and nodes, and starts an usher whose watches are late now and then, each by itself. No
// other usher runs.
func newHeldTrial(ctx context.Context, t *testing.T, namespace, gates string, scale, clients, operations int, within time.Duration) *heldTrial {
	t.Helper()
	h := &heldTrial{trial: newTrial(ctx, t, namespace, scale, clients, operations, time.Now()), within: within}
	h.every = 2 * time.Second
	h.crowd.act, h.crowd.dress, h.crowd.enough = h.act, h.dress, h.enough
	for i := range 20 {
		h.nodes = append(h.nodes, fmt.Sprintf("%s-%d", namespace, i))
	}
	startKubelets(ctx, t, h.nodes, within, &h.crowd.counts)
	h.through = lateReplicas(ctx, t, "usher-"+namespace, gates)
	usher.KillAll(ctx, t)
	return h
}

// lateReplicas starts an usher whose watches pause, and sends all reviews to it.
func lateReplicas(ctx context.Context, t *testing.T, name, gates string) *kubetest.Usher {
	t.Helper()
	line, err := newSlowLine(name)
	stored(t, err)
	t.Cleanup(line.server.Close)
	line.pauses = func() (before, long time.Duration) { return rand.N(20 * time.Second), rand.N(5 * time.Second) }
	late, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: name, Replicas: replicas(), Flags: []string{
		"--cluster=api", "--kubeconfig=" + line.kubeconfig, "--feature-gates=" + gates, "--quota-reservation-expiry=" + expiry.String()}})
	stored(t, err)
	t.Cleanup(late.Stop)
	stored(t, front.lead(late))
	t.Cleanup(func() { stored(t, front.lead(usher)) })
	return late
}

// dress puts a pod on a node; every tenth has a sidecar.
func (h *heldTrial) dress(pod kubetest.Object, random *rand.Rand) {
	spec := pod["spec"].(kubetest.Object)
	spec["nodeName"] = h.nodes[random.IntN(len(h.nodes))]
	if random.IntN(10) == 0 {
		spec["initContainers"] = []any{kubetest.Object{"name": "s", "image": "registry.k8s.io/pause:3.10", "restartPolicy": "Always",
			"resources": kubetest.Object{"requests": kubetest.Object{"cpu": "100m"}}}}
	}
}

// run runs the clients, and meanwhile what disturbs them. It leaves a sixth of the time for the checks at the end.
func (h *heldTrial) run(ctx context.Context, disturb func(done <-chan struct{})) {
	began, done := time.Now(), make(chan struct{})
	end, _ := ctx.Deadline()
	busy, stop := context.WithDeadline(ctx, end.Add(-time.Until(end)/6))
	defer stop()
	go func() {
		defer close(done)
		h.crowd.run(busy, h.seed, h.clients)
	}()
	disturb(done)
	h.t.Logf("%d operations in %s", h.crowd.begun.Load(), time.Since(began).Round(time.Second))
}

// act makes one request of a client.
func (h *heldTrial) act(ctx context.Context, v *visitor, name string) {
	own := v.any()
	n := v.random.IntN(200)
	if own == "" || n < 70 {
		v.visit(ctx, name)
		return
	}
	has := *v.own[own]
	switch {
	case n < 132:
		v.remove(ctx, own)
	case n < 160:
		v.resize(ctx, "resize up", own, has.cpu+100*(1+v.random.IntN(6)))
	case n < 180:
		v.resize(ctx, "resize down", own, 100*max(1, v.random.IntN(has.cpu/100)))
	case n < 186:
		v.resize(ctx, "withdraw a resize", own, has.before)
	case n < 194:
		v.move(ctx, own)
	case n < 196:
		v.end(ctx, own)
	default:
		h.changeQuota(ctx, v)
	}
}

// squeeze resizes a pod to less and creates another one at once, which needs room that the node has not given back. Few
// pods are deleted, so the quotas are always full.
func squeeze(ctx context.Context, v *visitor, name string) {
	if own := v.any(); own != "" {
		if v.random.IntN(3) == 0 {
			v.remove(ctx, own)
		} else {
			v.resize(ctx, "resize down", own, 100*max(1, v.random.IntN(v.own[own].cpu/100)))
		}
	}
	v.visit(ctx, name)
}

// changeQuota lowers or raises a limit, or puts a leaf below another parent.
func (h *heldTrial) changeQuota(ctx context.Context, v *visitor) {
	names := slices.Sorted(maps.Keys(h.limits))
	name := names[v.random.IntN(len(names))]
	limit := fmt.Sprintf("%dm", h.limits[name]*100*(4+v.random.IntN(7)))
	what, patch := "another limit", kubetest.Object{"spec": kubetest.Object{"max": kubetest.Object{"cpu": limit}}}
	if v.random.IntN(5) == 0 {
		what, name = "another parent", h.crowd.namespace+[]string{"-east-2", "-west-2"}[v.random.IntN(2)]
		parent := h.crowd.namespace + []string{"-east", "-west"}[v.random.IntN(2)]
		patch = kubetest.Object{"metadata": kubetest.Object{"labels": kubetest.Object{prefix + "parent": parent}}}
	}
	_, err := cluster.Admin().Patch(ctx, quotaPath(h.crowd.namespace, name), kubetest.MergePatch, patch)
	v.counts.Add(what+": "+outcome(err), 1)
}

// end waits until all resizes are carried out, and then checks what trial.settle does, and that the replicas count what
// the checker does.
func (h *heldTrial) end(ctx context.Context) {
	h.t.Helper()
	pause(ctx, h.within)
	c := h.settle(ctx)
	held, asked := c.Sums()
	for _, r := range h.through.Replicas {
		eventually(ctx, h.t, func(ctx context.Context) error {
			rows, err := reportOf(ctx, r)
			if err != nil {
				return err
			}
			return h.alike(rows, held, asked)
		})
	}
	h.sum(c.Told())
}

// enough also asks for pods that hold something else than they ask, and for changes of quotas.
func (h *heldTrial) enough() bool {
	told, n := h.checker.Told(), h.crowd.pods
	return h.trial.enough() && told.Apart >= n/100 && told.Infeasible >= n/2000 && told.Lowered >= n/4000 && told.Moved >= n/4000 &&
		h.crowd.counts.Get("withdraw a resize: "+isStored) >= n/200
}

// alike compares a report with the sums of the checker.
func (h *heldTrial) alike(rows []row, held, asked map[string]int64) error {
	for name := range h.limits {
		q := find(rows, name)
		if q == nil || len(q.Resources) != 1 {
			return fmt.Errorf("quota %s is not reported: %v", name, q)
		}
		of := q.Resources[0]
		used := resource.MustParse(of.Used)
		bySpec := used
		if of.Asked != "" {
			bySpec = resource.MustParse(of.Asked)
		}
		if used.MilliValue() != held[name] || bySpec.MilliValue() != asked[name] {
			return fmt.Errorf("quota %s: %+v is reported, its pods hold %dm and ask %dm", name, of, held[name], asked[name])
		}
	}
	return nil
}

// sum prints what the checker has seen, for docs/quota.md.
func (h *heldTrial) sum(told checker.Told) {
	h.t.Logf("%d operations: %d overshoots, %d pods admitted against grants, %d pods counted for more than was reserved; quotas were filled to %.1f %%; %d pods held something else "+
		"than they asked, %d resizes were infeasible, %d limits fell below what was held, %d quotas moved",
		h.crowd.pods, len(told.Overshoots), told.Granted, len(told.Uncovered), told.Fullest, told.Apart, told.Infeasible, told.Lowered, told.Moved)
	for i, problem := range told.Overshoots {
		if i < 3 {
			h.t.Log(problem)
		}
	}
}
