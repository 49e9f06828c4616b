package ledger

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// waiter is a call of Reserve that waits for its verdict.
type waiter struct {
	ctx       context.Context
	candidate *candidate
	answer    chan verdict // buffered, for the single answer
	state     atomic.Int32
	deferred  bool // it has waited for a change of its quotas
}

// A waiter is either answered or gone, never both, so that nothing is reserved for a caller that does not know of it.
const (
	waiting int32 = iota
	answered
	gone
)

// abandon marks a waiter whose caller cannot wait any longer, and reports whether no answer was on its way.
func (w *waiter) abandon() bool { return w.state.CompareAndSwap(waiting, gone) }

// reply sends the answer, and reports whether the waiter was still there.
func (w *waiter) reply(v verdict) bool {
	if !w.state.CompareAndSwap(waiting, answered) {
		return false
	}
	w.answer <- v
	return true
}

// present reports whether the caller still waits.
func (w *waiter) present() bool { return w.ctx.Err() == nil && w.state.Load() == waiting }

// stillWaiting returns the waiters of a batch whose callers are still there.
func stillWaiting(batch []*waiter) []*waiter {
	return slices.DeleteFunc(batch, func(w *waiter) bool { return !w.present() })
}

func lastDeadline(batch []*waiter) (last time.Time) {
	for _, w := range batch {
		deadline, ok := w.ctx.Deadline()
		if !ok {
			deadline = time.Now().Add(maxWork)
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return last
}

// maxWork is the time limit for callers without a deadline.
const maxWork = 30 * time.Second
