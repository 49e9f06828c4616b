package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// queue holds the waiters for a decision about one tree. One batch is decided at a time; all that arrive meanwhile form
// the next.
type queue struct {
	top     string
	waiting []*waiter
}

// waiter is a call of Reserve that waits for its verdict.
type waiter struct {
	ctx       context.Context
	candidate *candidate
	answer    chan verdict // buffered, for the single answer
	state     atomic.Int32
}

// A waiter is either answered or gone, never both, so that nothing is reserved for a caller that does not know of it.
const (
	waiting int32 = iota
	answered
	gone
)

// leave marks a waiter whose caller cannot wait any longer, and reports whether no answer was on its way.
func (w *waiter) leave() bool { return w.state.CompareAndSwap(waiting, gone) }

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

// maxBatch bounds a batch, so that in a flood the first callers do not wait for the last.
const maxBatch = 256

// enqueue adds a waiter to the next batch of a tree.
func (l *Ledger) enqueue(top string, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[top]
	if q == nil {
		q = &queue{top: top}
		l.queues[top] = q
		go l.work(q)
	}
	q.waiting = append(q.waiting, w)
}

// work decides batch after batch until the queue is empty.
func (l *Ledger) work(q *queue) {
	for batch := l.next(q); batch != nil; batch = l.next(q) {
		l.serve(q.top, batch)
	}
}

// next removes the next batch from the queue. It returns nil and deletes the queue when nothing waits.
func (l *Ledger) next(q *queue) (batch []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(l.queues, q.top)
		return nil
	}
	n := min(len(q.waiting), maxBatch)
	batch, q.waiting = q.waiting[:n:n], q.waiting[n:]
	return batch
}

// serve decides and writes until all callers of a batch are answered or gone.
func (l *Ledger) serve(top string, batch []*waiter) {
	for attempt := 0; ; attempt++ {
		if batch = stillWaiting(batch); len(batch) == 0 {
			return
		}
		ctx, cancel := context.WithDeadline(context.Background(), lastDeadline(batch))
		made, err := l.tryBatch(ctx, top, batch)
		cancel()
		switch {
		case err == nil:
			l.replyAll(batch, made)
			return
		case errors.Is(err, ErrConflict):
			backoff(attempt)
		case errors.Is(err, errCallerGone):
		default:
			l.revoke(made.held()...) // the record may have been written nevertheless
			failAll(batch, err)
			return
		}
	}
}

// errCallerGone means that a caller left while its batch was being decided.
var errCallerGone = errors.New("a caller has gone")

// tryBatch decides on a batch and writes the record if anything was reserved.
func (l *Ledger) tryBatch(ctx context.Context, top string, batch []*waiter) (plan, error) {
	candidates := make([]*candidate, len(batch))
	for i, w := range batch {
		candidates[i] = w.candidate
	}
	made, v, err := l.decide(ctx, top, candidates)
	if err != nil || !made.granted {
		return made, err
	}
	for i, w := range batch {
		if v := &made.verdicts[i]; v.settled() {
			w.reply(*v) // at once, also if the write fails
		} else if !w.present() {
			return plan{}, errCallerGone
		}
	}
	return made, l.write(ctx, v, made)
}

// errReverted means that another component reverts what the ledger writes.
var errReverted = errors.New("the API server did not keep the quota's reservations: does the webhook configuration leave out usher's own user? see usher webhooks --user")

// write stores the record of a plan.
func (l *Ledger) write(ctx context.Context, v view, p plan) error {
	key, text := keyOf(v.top.Quota), p.next.text()
	l.counts.writes.Add(1)
	object, err := l.options.Store.Write(ctx, key, v.top.Version, text)
	if err == nil && object.Record != text {
		l.options.Log.WithField("quota", key.Name).Error(errReverted.Error())
		err = errReverted
	}
	if err == nil {
		l.objects.cacheRecord(key, text, p.next)
		l.objects.update(object)
		return nil
	}
	if fresh, unread := l.options.Store.Read(ctx, key); unread == nil { // the known object was stale, or the write may have happened
		l.objects.overwrite(fresh)
	}
	if errors.Is(err, ErrConflict) {
		l.counts.conflicts.Add(1)
		return err
	}
	l.counts.failures.Add(1)
	return busy(err)
}

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

// replyAll answers a batch and revokes the reservations of callers that had gone by then. Waiters whose quota has moved
// to another tree join its queue.
func (l *Ledger) replyAll(batch []*waiter, p plan) {
	for i, w := range batch {
		v := p.verdicts[i]
		if v.elsewhere != "" {
			l.enqueue(v.elsewhere, w)
		} else if !w.reply(v) && v.held != nil {
			l.revoke(*v.held)
		}
	}
}

// revoke withdraws reservations whose callers received no answer, except those that are shared with another answer.
func (l *Ledger) revoke(all ...reservation) {
	for _, r := range all {
		if !r.Again {
			l.revoked.add(r)
		}
	}
}

func failAll(batch []*waiter, err error) {
	for _, w := range batch {
		w.reply(verdict{err: err})
	}
}

// backoff gives another replica time to finish before the next attempt.
func backoff(attempt int) {
	time.Sleep(rand.N(time.Millisecond << min(attempt, 5)))
}
