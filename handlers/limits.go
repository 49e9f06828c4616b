package handlers

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// errShed is the cause of an answer that sends the caller away: there is more to do than can be done in time.
var errShed = errors.New("too many reviews at once")

// Limits bound what is under way at one moment, whoever posts: reviews being decided, what deciding them may take of the memory, and
// bytes of bodies and answers held.
type Limits struct {
	slots        chan struct{} // taken by each review being decided, but heartbeats
	light, heavy lane          // of which each review takes what deciding it may cost
	held         atomic.Int64
	maxHeld      int64
}

// defaultMemory is what the service may use if nobody says: as in deploy/base.
const defaultMemory = 208 << 20

// NewLimits lets so many reviews be decided at once, in the memory that Go was told to stay below (GOMEMLIMIT).
func NewLimits(inFlight int) *Limits {
	memory := debug.SetMemoryLimit(-1)
	if memory == math.MaxInt64 {
		memory = defaultMemory
	}
	return limitsIn(memory, inFlight)
}

// limitsIn divides the memory. Three eighths are left: for the process itself, the connections, the state of the cluster and garbage.
func limitsIn(memory int64, inFlight int) *Limits {
	return &Limits{
		slots: make(chan struct{}, inFlight), light: newLane(memory / 8), heavy: newLane(memory / 4), maxHeld: memory / 4,
	}
}

// InFlight is the number of reviews being decided now.
func (l *Limits) InFlight() int { return len(l.slots) }

// hold counts so many bytes of bodies and answers more, unless that is too many; drop gives them back. The first room of a body, which
// is all that an ordinary review needs, and a small answer may bring them to half as much again, so that a few large bodies that
// dribble in keep nobody out.
func (l *Limits) hold(n int, small bool) error {
	if all := l.held.Add(int64(n)); all <= l.maxHeld || small && all <= l.maxHeld*3/2 {
		return nil
	}
	l.drop(n)
	return errShed
}

func (l *Limits) drop(n int) { l.held.Add(int64(-n)) }

// What deciding a review may take beside its body, measured on every route: see the table of limits in docs/operations.md. It is the
// objects that steps change, and containers that they change most. Light reviews, nearly all that there are, do not wait for heavy
// ones. A heavy one takes so much at least that not more than eight keep the processors busy.
const (
	costOfReview  = 64 << 10
	costPerByte   = 2
	costPerValue  = 128
	costPerObject = 3 << 10 // a container whose devices are completed has four objects and costs 11 KiB
	maxValues     = 500_000 // of which a document is refused
	maxObjects    = 2500    // a pod's 500 containers, and as many of anything else that changes
	lightCost     = 2 << 20 // a 20 KB pod and a 51 KB node cost half of it
	heavyCost     = 7 << 20
)

// costOf is how many bytes deciding a review may take. It counts what stands before each value but the first, also where it stands in
// strings: a step may decode the JSON in an annotation.
func costOf(body []byte) int64 {
	objects := bytes.Count(body, []byte("{"))
	values := bytes.Count(body, []byte(",")) + bytes.Count(body, []byte("[")) + objects
	return int64(costOfReview + costPerByte*len(body) + costPerValue*min(values, maxValues) + costPerObject*min(objects, maxObjects))
}

// lane is a share of the memory. Who comes first is served first, so that nobody waits for ever.
type lane struct {
	free *semaphore.Weighted
	all  int64
}

func newLane(all int64) lane { return lane{semaphore.NewWeighted(all), all} }

// take takes so much of the lane, waiting at most so long. What costs more than the lane has gets all of it.
func (l lane) take(ctx context.Context, cost int64, wait time.Duration) (taken int64, err error) {
	cost = min(cost, l.all)
	if l.free.TryAcquire(cost) {
		return cost, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if l.free.Acquire(ctx, cost) == nil {
		return cost, nil
	}
	return 0, givenUp(ctx)
}

// place is what a review that is being decided has taken.
type place struct {
	slot  chan struct{}
	lane  lane
	taken int64
}

// leave gives it back, once nothing of the decision is held any more.
func (p place) leave() {
	if p.taken > 0 {
		p.lane.free.Release(p.taken)
	}
	if p.slot != nil {
		<-p.slot
	}
}

// maxWait is the longest wait for a slot: who waits longer will not be answered in time either, and a 503 with Retry-After
// lets the API server try again within its own timeout.
const maxWait = 100 * time.Millisecond

// enter waits until a review may be decided. A light heartbeat is never sent away because there are many others: it needs no slot, and
// when it has waited for its share of the memory it goes on without. What was taken is to be left also after an error.
func (l *Limits) enter(ctx context.Context, body []byte, heartbeat bool) (p place, err error) {
	cost := costOf(body)
	if p.lane = l.light; cost > lightCost {
		p.lane, cost = l.heavy, max(cost, heavyCost)
	}
	p.taken, err = p.lane.take(ctx, cost, share(ctx, 2))
	if heartbeat && cost <= lightCost && errors.Is(err, errShed) {
		return p, nil
	}
	if err != nil || heartbeat {
		return p, err
	}
	if err := takeSlot(ctx, l.slots, min(maxWait, share(ctx, 10))); err != nil {
		return p, err
	}
	p.slot = l.slots
	return p, nil
}

// share is one of so many parts of the time that is left.
func share(ctx context.Context, parts time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return maxTimeout / parts
	}
	return time.Until(deadline) / parts
}

// takeSlot takes one of what there are only so many of, waiting at most so long.
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
		return givenUp(ctx)
	}
}

// givenUp says why a wait has ended.
func givenUp(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // the caller went away
	}
	return errShed
}
