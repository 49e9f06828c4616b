package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// errShed is the cause of a failure when there is more work than can be done in time.
var errShed = errors.New("too many reviews at once")

// Limits bounds the work in progress over all clients: the number of reviews being decided, the memory that deciding
// them may take, and the bytes of bodies and answers held.
type Limits struct {
	slots        chan struct{} // one for each review being decided, except heartbeats
	light, heavy lane          // the memory for deciding reviews
	held         atomic.Int64
	maxHeld      int64
}

// defaultMemory is the memory limit in bytes without GOMEMLIMIT: four fifths of the limit in deploy/base, as there.
const defaultMemory = 256 << 20 * 4 / 5

// NewLimits returns limits for inFlight concurrent reviews, within the memory limit of the Go runtime (GOMEMLIMIT).
func NewLimits(inFlight int) *Limits {
	memory := debug.SetMemoryLimit(-1)
	if memory == math.MaxInt64 {
		memory = defaultMemory
	}
	return limitsIn(memory, inFlight)
}

// limitsIn divides the memory. Three eighths remain for the process itself, connections, the state of the cluster and
// garbage.
func limitsIn(memory int64, inFlight int) *Limits {
	return &Limits{
		slots: make(chan struct{}, inFlight), light: newLane(memory / 8), heavy: newLane(memory / 4), maxHeld: memory / 4,
	}
}

// InFlight returns the number of reviews that are being decided.
func (l *Limits) InFlight() int { return len(l.slots) }

// hold adds n to the bytes of bodies and answers held, or fails if that exceeds the limit; drop subtracts them. A small
// hold, which is the first buffer of a body (enough for an ordinary review) or a small answer, may exceed the limit by
// half, so that a few large bodies that arrive slowly do not keep others out.
func (l *Limits) hold(n int, small bool) error {
	if all := l.held.Add(int64(n)); all <= l.maxHeld || small && all <= l.maxHeld*3/2 {
		return nil
	}
	l.drop(n)
	return errShed
}

func (l *Limits) drop(n int) { l.held.Add(int64(-n)) }

// The memory that deciding a review may take in addition to its body, in bytes, as measured on every route: see the
// table of limits in docs/operations.md. It depends on the objects that steps change, of which containers are changed
// most. Light reviews, which nearly all reviews are, do not wait for heavy ones. The minimum for a heavy review keeps
// more than eight of them from occupying the processors.
const (
	costOfReview  = 128 << 10 // a half is for what rules make; those that make more take turns
	costPerByte   = 2
	costPerValue  = 128
	costPerObject = 3 << 10                 // a container whose devices are completed has four objects and costs 11 KiB
	maxObjects    = 5 * admit.MaxContainers // 500 containers of a pod, and as many of anything else that changes
	lightCost     = 2 << 20                 // a 20 KB pod and a 51 KB node cost half of it
	heavyCost     = 7 << 20
)

// costOf returns the bytes of memory that deciding a review may take. It counts the characters that precede every value
// but the first, also inside strings, because a step may decode the JSON in an annotation.
func costOf(body []byte) int64 {
	values := bytes.Count(body, []byte(",")) + bytes.Count(body, []byte("[")) + bytes.Count(body, []byte("{"))
	return int64(costOfReview + costPerByte*len(body) + costPerValue*min(values, document.MaxValues) + costPerObject*min(objectsIn(body), maxObjects))
}

// managedFields precedes the fields' managers, as the API server writes them; in a string its quote would be escaped. It is not
// the whole name: a search that begins with a rare letter costs a third. (Of matchFields no step changes anything either.)
var managedFields = []byte(`Fields":[`)

// objectsIn counts the objects that a step may change: not those in managedFields, of which an ordinary pod has hundreds. What
// is before the next "]" is certainly in that list.
func objectsIn(body []byte) (n int) {
	for len(body) > 0 {
		before, list, _ := bytes.Cut(body, managedFields)
		n += bytes.Count(before, []byte("{"))
		_, body, _ = bytes.Cut(list, []byte("]"))
	}
	return n
}

// lane is a share of the memory. It is granted in the order of requests, so no review waits forever.
type lane struct {
	free *semaphore.Weighted
	all  int64
}

func newLane(all int64) lane { return lane{semaphore.NewWeighted(all), all} }

// acquire takes cost bytes of the lane, waiting at most wait. A cost above the size of the lane takes all of it.
func (l lane) acquire(ctx context.Context, cost int64, wait time.Duration) (taken int64, err error) {
	cost = min(cost, l.all)
	if l.free.TryAcquire(cost) {
		return cost, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if l.free.Acquire(ctx, cost) == nil {
		return cost, nil
	}
	return 0, waitError(ctx)
}

// grant holds the slot and the memory of a review that is being decided.
type grant struct {
	slot  chan struct{}
	lane  lane
	taken int64
}

// release returns it to the limits, as soon as nothing of the decision is held any more.
func (g grant) release() {
	if g.taken > 0 {
		g.lane.free.Release(g.taken)
	}
	if g.slot != nil {
		<-g.slot
	}
}

// maxWait is the longest wait for a slot: a review that waits longer would not be answered in time either, and a 503
// with Retry-After lets the API server try again within its own timeout.
const maxWait = 100 * time.Millisecond

// acquire waits until a review may be decided. A light heartbeat is never rejected because of other reviews: it needs
// no slot, and if its wait for memory times out it proceeds without. The caller must call g.release even if err is not
// nil.
func (l *Limits) acquire(ctx context.Context, body []byte, heartbeat bool) (g grant, err error) {
	cost := costOf(body)
	if g.lane = l.light; cost > lightCost {
		g.lane, cost = l.heavy, max(cost, heavyCost)
	}
	g.taken, err = g.lane.acquire(ctx, cost, share(ctx, 2))
	if heartbeat && cost <= lightCost && errors.Is(err, errShed) {
		return g, nil
	}
	if err != nil || heartbeat {
		return g, err
	}
	if err := takeSlot(ctx, l.slots, min(maxWait, share(ctx, 10))); err != nil {
		return g, err
	}
	g.slot = l.slots
	return g, nil
}

// share returns the given fraction, 1/parts, of the remaining time.
func share(ctx context.Context, parts time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return maxTimeout / parts
	}
	return time.Until(deadline) / parts
}

// takeSlot takes a slot, waiting at most wait.
func takeSlot(ctx context.Context, from chan struct{}, wait time.Duration) error {
	select {
	case from <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case from <- struct{}{}:
		return nil
	case <-ctx.Done():
		return waitError(ctx)
	}
}

// waitError returns why a wait has ended.
func waitError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // the caller went away
	}
	return errShed
}

// containerLists maps each kind that holds a pod to the paths of its container lists. Errors are reported at the first
// path.
var containerLists = map[string][][]string{
	"Pod": {{"spec", "containers"}, {"spec", "initContainers"}, {"spec", "ephemeralContainers"}},
	"Reservation": {{"spec", "template", "spec", "containers"}, {"spec", "template", "spec", "initContainers"},
		{"spec", "template", "spec", "ephemeralContainers"}},
}

// checkContainers returns an error if the object has more containers than a chain should process, else nil. Stored objects are
// accepted: an update is refused only if it adds to an object that is already above the bound.
func checkContainers(req *admit.Request) *field.Error {
	lists := containerLists[req.Kind.Kind]
	if lists == nil || req.Object == nil {
		return nil
	}
	n := countAll(req.Object, lists)
	if n <= admit.MaxContainers || req.OldObject != nil && n <= countAll(req.OldObject, lists) {
		return nil
	}
	path := field.NewPath(lists[0][0], lists[0][1:]...)
	return &field.Error{Type: field.ErrorTypeTooMany, Field: path.String(), BadValue: n, Detail: fmt.Sprintf(
		"a pod may have at most %d containers, init containers and ephemeral containers together; spread them over several pods", admit.MaxContainers)}
}

func countAll(d *document.Document, lists [][]string) (n int) {
	for _, list := range lists {
		n += d.SentSize(list...)
	}
	return n
}
