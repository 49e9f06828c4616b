package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// The results of a request.
const (
	isStored   = "stored"
	fullUp     = "refused: over a quota"
	notByUs    = "refused: by the other webhook"
	outOfReach = "failed: usher, its answer or the API server was away"
)

// outcome classifies an answer.
func outcome(err error) string {
	var refused *kubetest.StatusError
	switch {
	case err == nil:
		return isStored
	case !errors.As(err, &refused), refused.Code >= 500, refused.Code == 429,
		strings.Contains(refused.Message, "/limitranges"): // the API server's own plugin LimitRanger had asked one that was killed: 403
		return outOfReach
	case strings.Contains(refused.Message, "other.example.com"):
		return notByUs
	case strings.Contains(refused.Message, "evaluate-quota"):
		return fullUp
	}
	return fmt.Sprintf("unexpected: %v", err)
}

// crowd is many clients that create pods in the quotas of one namespace.
type crowd struct {
	namespace string
	leaves    []string
	pods      int // the total number to try
	until     time.Time
	begun     atomic.Int64
	counts    kubetest.Counts

	// enough reports whether what the test is about has happened often enough. The clients go on until it has.
	enough func() bool
	// act is called by a client each time, with a name for a new pod.
	act func(ctx context.Context, v *visitor, name string)
	// dress completes a new pod; may be nil.
	dress func(pod kubetest.Object, random *rand.Rand)
}

// run runs the clients until all pods were tried, the time is over, and enough has happened.
func (c *crowd) run(ctx context.Context, seed uint64, clients int) {
	var all sync.WaitGroup
	for i := range clients {
		one := &visitor{crowd: c, random: rand.New(rand.NewPCG(seed, uint64(i)+1)), number: i, own: map[string]*owned{}}
		all.Go(func() { one.work(ctx) })
	}
	all.Wait()
}

// visitor is a client with its own pods.
type visitor struct {
	*crowd
	random  *rand.Rand
	number  int
	own     map[string]*owned // its stored pods
	leaving []string          // pods that it has let go, without an answer
}

// owned is the request of a client's pod, in thousandths of a core.
type owned struct{ cpu, before int }

// work makes one request after the other.
func (v *visitor) work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if v.begun.Add(1) > int64(v.pods) && time.Now().After(v.until) && v.enough() {
			return
		}
		if len(v.leaving) > 0 {
			v.leave(ctx)
		}
		v.act(ctx, v, fmt.Sprintf("c%d-%d", v.number, n))
		if v.random.IntN(50) == 0 {
			pause(ctx, time.Duration(v.random.IntN(1000))*time.Millisecond)
		}
	}
}

// come creates a pod, and sometimes does something with another one.
func come(ctx context.Context, v *visitor, name string) {
	v.visit(ctx, name)
	if v.random.IntN(3) == 0 {
		v.disturb(ctx)
	}
}

// visit creates a pod, some twice at once like an impatient client, and retries requests without an answer. It owns what may be stored: a pod
// that nobody deletes would fill a quota for good.
func (v *visitor) visit(ctx context.Context, name string) {
	cpu := 100 * (1 + v.random.IntN(5))
	pod := newPod(name, v.leaf(), fmt.Sprintf("%dm", cpu))
	if v.dress != nil {
		v.dress(pod, v.random)
	}
	twice := v.random.IntN(10) == 0
	for range 40 {
		if v.random.IntN(10) == 0 {
			v.counts.Add("dry run: "+outcome(v.create(ctx, pod, "?dryRun=All")), 1)
		}
		result := v.attempt(ctx, pod, twice)
		if result == isStored {
			v.own[name] = &owned{cpu, cpu}
		}
		if result != outOfReach || ctx.Err() != nil {
			return
		}
		pause(ctx, time.Duration(v.random.IntN(400))*time.Millisecond)
	}
	v.own[name] = &owned{cpu, cpu}
	v.counts.Add("given up", 1)
}

// attempt posts a pod, perhaps twice at once, and returns the result that leaves most open: stored, no answer, refused.
func (v *visitor) attempt(ctx context.Context, pod kubetest.Object, twice bool) string {
	var second string
	var both sync.WaitGroup
	if twice {
		both.Go(func() {
			second = outcome(v.create(ctx, pod, ""))
			v.counts.Add("a second time at once: "+second, 1)
		})
	}
	first := outcome(v.create(ctx, pod, ""))
	v.counts.Add(first, 1)
	both.Wait()
	if second == isStored || second == outOfReach && first != isStored {
		return second
	}
	return first
}

// create treats an existing pod as success: an earlier attempt succeeded, and its answer was lost.
func (v *visitor) create(ctx context.Context, pod kubetest.Object, query string) error {
	_, err := cluster.Admin().Create(ctx, podPath(v.namespace, "")+query, pod)
	if hasReason(err, "AlreadyExists") {
		return nil
	}
	return err
}

// hasReason reports whether an error is a refusal for a reason.
func hasReason(err error, reason string) bool {
	var refused *kubetest.StatusError
	return errors.As(err, &refused) && refused.Reason == reason
}

func (v *visitor) leaf() string { return v.leaves[v.random.IntN(len(v.leaves))] }

// any returns the name of one of its pods; empty if it has none.
func (v *visitor) any() string {
	if len(v.own) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(v.own))
	return names[v.random.IntN(len(names))]
}

// disturb deletes, terminates, moves or resizes one of its pods. This may fail while the API server is unavailable.
func (v *visitor) disturb(ctx context.Context) {
	name := v.any()
	if name == "" {
		return
	}
	switch v.random.IntN(8) {
	default:
		v.remove(ctx, name)
	case 0:
		v.end(ctx, name)
	case 1, 2:
		v.move(ctx, name)
	case 3:
		v.resize(ctx, "resize", name, 100*(1+v.random.IntN(6)))
	}
}

func (v *visitor) remove(ctx context.Context, name string) {
	_, err := cluster.Admin().Delete(ctx, podPath(v.namespace, name))
	v.part("delete: ", name, outcome(err))
}

func (v *visitor) end(ctx context.Context, name string) {
	_, err := cluster.Admin().Patch(ctx, podPath(v.namespace, name)+"/status", kubetest.MergePatch, `{"status": {"phase": "Succeeded"}}`)
	v.part("end: ", name, outcome(err))
}

// part counts the result for a pod that was deleted or has ended.
func (v *visitor) part(what, name, result string) {
	if result == outOfReach {
		v.leaving = append(v.leaving, name)
	}
	delete(v.own, name)
	v.counts.Add(what+result, 1)
}

// leave deletes the pod that it let go first.
func (v *visitor) leave(ctx context.Context) {
	name := v.leaving[0]
	v.leaving = v.leaving[1:]
	v.remove(ctx, name)
}

func (v *visitor) move(ctx context.Context, name string) {
	_, err := cluster.Admin().Patch(ctx, podPath(v.namespace, name), kubetest.MergePatch,
		kubetest.Object{"metadata": kubetest.Object{"labels": kubetest.Object{prefix + "name": v.leaf()}}})
	v.counts.Add("move: "+outcome(err), 1)
}

// resize resizes a pod in place, in thousandths of a core.
func (v *visitor) resize(ctx context.Context, what, name string, cpu int) {
	_, err := cluster.Admin().Patch(ctx, podPath(v.namespace, name)+"/resize", kubetest.StrategicPatch, fmt.Sprintf(
		`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "%dm"}}}]}}`, cpu))
	if err == nil {
		v.own[name] = &owned{cpu, v.own[name].cpu}
	}
	v.counts.Add(what+": "+outcome(err), 1)
}

func pause(ctx context.Context, long time.Duration) {
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
}
