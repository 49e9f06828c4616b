package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// queue are those who wait for a decision about one tree. One batch at a time is decided; all who come meanwhile are the next.
type queue struct {
	top     string
	waiting []*waiter
}

// waiter is one who waits.
type waiter struct {
	ctx       context.Context
	candidate *candidate
	answer    chan verdict // has room for one
	state     atomic.Int32
}

// A waiter is answered, or has gone: never both, so that no room is held for one who does not know.
const (
	waiting int32 = iota
	answered
	gone
)

// leave is for a caller who cannot wait any longer: true if no answer was on its way.
func (w *waiter) leave() bool { return w.state.CompareAndSwap(waiting, gone) }

// reply answers the waiter, and reports whether it was still there.
func (w *waiter) reply(v verdict) bool {
	if !w.state.CompareAndSwap(waiting, answered) {
		return false
	}
	w.answer <- v
	return true
}

// here reports whether the caller still waits.
func (w *waiter) here() bool { return w.ctx.Err() == nil && w.state.Load() == waiting }

// maxBatch bounds a batch, so that the first of very many do not wait for the last.
const maxBatch = 256

// join lines up for a tree's next batch.
func (l *Ledger) join(top string, w *waiter) {
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

// work decides batch after batch until nobody waits.
func (l *Ledger) work(q *queue) {
	for batch := l.next(q); batch != nil; batch = l.next(q) {
		l.serve(q.top, batch)
	}
}

// next takes the next batch; nil when nobody waits, and the queue is forgotten.
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

// serve decides and writes until all of a batch are answered or have gone.
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
			pause(attempt)
		case errors.Is(err, errLeft):
		default:
			l.revoke(made.held()...) // it may have been written all the same
			failAll(batch, err)
			return
		}
	}
}

// errLeft: somebody went while it was being decided for him too.
var errLeft = errors.New("a caller has gone")

// tryBatch decides on a batch and, if room was given, writes that.
func (l *Ledger) tryBatch(ctx context.Context, top string, batch []*waiter) (plan, error) {
	candidates := make([]*candidate, len(batch))
	for i, w := range batch {
		candidates[i] = w.candidate
	}
	made, v, err := l.decide(ctx, top, candidates)
	if err != nil || !made.granted {
		return made, err
	}
	for _, w := range batch {
		if !w.here() {
			return plan{}, errLeft
		}
	}
	return made, l.write(ctx, v, made)
}

// errPutBack: somebody undoes what the ledger writes.
var errPutBack = errors.New("the API server did not keep the quota's reservations: does the webhook configuration leave out usher's own user? see usher webhooks --user")

// write puts a plan's record in force.
func (l *Ledger) write(ctx context.Context, v view, p plan) error {
	key, text := keyOf(v.top.Quota), p.next.text()
	l.counts.writes.Add(1)
	object, err := l.options.Store.Write(ctx, key, v.top.Version, text)
	if err == nil && object.Record != text {
		l.options.Log.WithField("quota", key.Name).Error(errPutBack.Error())
		err = errPutBack
	}
	if err == nil {
		l.objects.wrote(key, text, p.next)
		l.objects.learn(object)
		return nil
	}
	if fresh, unread := l.options.Store.Read(ctx, key); unread == nil { // it is not what we thought, or the write may have happened
		l.objects.trust(fresh)
	}
	if errors.Is(err, ErrConflict) {
		l.counts.conflicts.Add(1)
		return err
	}
	l.counts.failures.Add(1)
	return busy(err)
}

// stillWaiting are those of a batch whose callers have not gone.
func stillWaiting(batch []*waiter) []*waiter {
	return slices.DeleteFunc(batch, func(w *waiter) bool { return !w.here() })
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

// maxWork is the longest work for those who set no deadline.
const maxWork = 30 * time.Second

// replyAll answers a batch, and notes the room that was written for those that had gone by then. Those whose quota has come to another tree line
// up there.
func (l *Ledger) replyAll(batch []*waiter, p plan) {
	for i, w := range batch {
		v := p.verdicts[i]
		if v.elsewhere != "" {
			l.join(v.elsewhere, w)
		} else if !w.reply(v) && v.held != nil {
			l.revoke(*v.held)
		}
	}
}

// revoke takes back what was given to who did not hear of it; but not what others were given too.
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

// pause lets another replica finish before the next attempt.
func pause(attempt int) {
	time.Sleep(rand.N(time.Millisecond << min(attempt, 5)))
}
