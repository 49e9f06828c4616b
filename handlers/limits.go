package handlers

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errShed is the cause of an answer that sends the caller away: there is more to do than can be done in time.
var errShed = errors.New("too many reviews at once")

// Limits bound what is under way at one moment, whoever posts: reviews being decided, and bytes of bodies and answers held.
type Limits struct {
	slots chan struct{} // taken by each review being decided, but heartbeats
	heavy chan struct{} // taken by each heavy review being decided, also heartbeats
	held  atomic.Int64
}

// NewLimits lets so many reviews be decided at once.
func NewLimits(inFlight int) *Limits {
	return &Limits{slots: make(chan struct{}, inFlight), heavy: make(chan struct{}, maxHeavy)}
}

// InFlight is the number of reviews being decided now.
func (l *Limits) InFlight() int { return len(l.slots) }

// maxHeld is what all together may hold. The first room of a body, which is all that an ordinary review needs, may bring it to
// twice as much, so that a few large bodies that dribble in keep nobody out.
const maxHeld = 64 << 20

// hold counts so many bytes more, unless that is too many. drop gives them back.
func (l *Limits) hold(n int, first bool) error {
	if all := l.held.Add(int64(n)); all <= maxHeld || first && all <= 2*maxHeld {
		return nil
	}
	l.drop(n)
	return errShed
}

func (l *Limits) drop(n int) { l.held.Add(int64(-n)) }

// A heavy review is long or has many values. Deciding it can take 75 MiB beside its body: to note where 500,000 values are, or
// to look at 20,000 containers. So only maxHeavy are decided at once, and the others wait for half of the time that is left: each
// decision takes milliseconds, and maxHeld bounds how many can wait.
const (
	maxHeavy       = 2
	maxLightBytes  = 256 << 10
	maxLightValues = 4096 // a 20 KB pod and a 51 KB node have 1,600
)

// isHeavy tells whether a review is. It counts what stands before each value but the first, also where it stands in strings: a
// step may decode the JSON in an annotation.
func isHeavy(body []byte) bool {
	if len(body) > maxLightBytes {
		return true
	}
	values := 0
	for _, mark := range []string{",", "[", "{"} {
		values += bytes.Count(body, []byte(mark))
	}
	return values > maxLightValues
}

// place is what a review that is being decided has taken.
type place struct{ heavy, slot chan struct{} }

// leave gives it back, once nothing of the decision is held any more.
func (p place) leave() {
	for _, c := range [...]chan struct{}{p.heavy, p.slot} {
		if c != nil {
			<-c
		}
	}
}

// maxWait is the longest wait for a slot: who waits longer will not be answered in time either, and a 503 with Retry-After
// lets the API server try again within its own timeout.
const maxWait = 100 * time.Millisecond

// enter waits until a review may be decided. A heartbeat needs no slot: it is not sent away because there are many others. What
// was taken is to be left also after an error.
func (l *Limits) enter(ctx context.Context, body []byte, heartbeat bool) (p place, err error) {
	if isHeavy(body) {
		if err := take(ctx, l.heavy, share(ctx, 2)); err != nil {
			return p, err
		}
		p.heavy = l.heavy
	}
	if !heartbeat {
		if err := take(ctx, l.slots, min(maxWait, share(ctx, 10))); err != nil {
			return p, err
		}
		p.slot = l.slots
	}
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

// take takes one of what there are only so many of, waiting at most so long.
func take(ctx context.Context, from chan struct{}, wait time.Duration) error {
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
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err() // the caller went away
		}
		return errShed
	}
}
