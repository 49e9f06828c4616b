package ledger

import (
	"context"
	"errors"
	"sync"
	"time"
)

// queues holds a queue for each tree about which something is to be decided.
type queues struct {
	serve func(q *queue, batch []*waiter)
	renew func(top string) // renews the grants of a tree

	mu sync.Mutex
	of map[string]*queue // by the name of the top quota
}

// queue holds the waiters for a decision about one tree. One batch is decided at a time; all that arrive meanwhile form
// the next.
type queue struct {
	top     string
	waiting []*waiter
	renews  bool // the grants of the tree are to be renewed
}

// maxBatch bounds a batch, so that in a flood the first callers do not wait for the last.
const maxBatch = 256

// enqueue adds a waiter to the next batch of a tree.
func (qs *queues) enqueue(top string, w *waiter) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queueOf(top)
	q.waiting = append(q.waiting, w)
}

// renewSoon lets the grants of a tree be renewed, with the next batch if one waits.
func (qs *queues) renewSoon(top string) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.queueOf(top).renews = true
}

// queueOf returns the queue of a tree. The caller holds mu, and puts something into the queue.
func (qs *queues) queueOf(top string) *queue {
	q := qs.of[top]
	if q == nil {
		q = &queue{top: top}
		qs.of[top] = q
		go qs.work(q)
	}
	return q
}

// work decides batch after batch until the queue is empty.
func (qs *queues) work(q *queue) {
	for batch, renews, ok := qs.next(q); ok; batch, renews, ok = qs.next(q) {
		qs.serve(q, batch)
		if renews {
			qs.renew(q.top)
		}
	}
}

// next removes the next batch from the queue, and what is to be done after it. It returns false and deletes the queue when
// nothing waits.
func (qs *queues) next(q *queue) (batch []*waiter, renews, ok bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if len(q.waiting) == 0 && !q.renews {
		delete(qs.of, q.top)
		return nil, false, false
	}
	renews, q.renews = q.renews, false
	return q.take(maxBatch), renews, true
}

// more returns the batch without callers that have gone, and with those that have arrived since.
func (qs *queues) more(q *queue, batch []*waiter) []*waiter {
	batch = stillWaiting(batch)
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return append(batch, q.take(maxBatch-len(batch))...)
}

// take removes the first waiters of the queue, at most n.
func (q *queue) take(n int) (first []*waiter) {
	n = min(len(q.waiting), n)
	first, q.waiting = q.waiting[:n:n], q.waiting[n:]
	return first
}

// serve decides and writes until all callers of a batch are answered or gone. Callers that arrive meanwhile join each
// further attempt.
func (l *Ledger) serve(q *queue, batch []*waiter) {
	turnEnds := time.Now().Add(maxTurn)
	for batch = stillWaiting(batch); len(batch) > 0; batch = l.queues.more(q, batch) {
		ctx, cancel := context.WithDeadline(context.Background(), lastDeadline(batch))
		made, err := l.tryBatch(ctx, q.top, batch, turnEnds)
		cancel()
		switch {
		case err == nil:
			l.replyAll(batch, made)
			return
		case errors.Is(err, ErrConflict):
			turnEnds = time.Now().Add(maxTurn)
		case errors.Is(err, errCallerGone), errors.Is(err, errWaited):
		default:
			l.revoked.withdraw(made.held()...) // the record may have been written nevertheless
			failAll(batch, err)
			return
		}
	}
}

// errWaited means that this replica has waited for its turn, so that the batch must be decided on again, with what has
// happened meanwhile.
var errWaited = errors.New("it was another replica's turn to write")

// errCallerGone means that a caller left while its batch was being decided.
var errCallerGone = errors.New("a caller has gone")

// tryBatch decides on a batch and writes the record if anything was reserved. It waits for its turn to write only until
// turnEnds.
func (l *Ledger) tryBatch(ctx context.Context, top string, batch []*waiter, turnEnds time.Time) (plan, error) {
	candidates := make([]*candidate, len(batch))
	for i, w := range batch {
		candidates[i] = w.candidate
	}
	made, v, err := l.decide(ctx, top, candidates)
	if err != nil || !made.granted && !made.recalls {
		return made, err
	}
	for i, w := range batch {
		if v := &made.verdicts[i]; v.settled() {
			l.counts.reply(w, *v) // at once, also if the write fails
		} else if !w.present() {
			return plan{}, errCallerGone
		}
	}
	if l.records.awaitTurn(ctx, keyOf(v.top.Quota), turnEnds) {
		return plan{}, errWaited
	}
	return made, l.write(ctx, v, made)
}

// replyAll answers a batch and revokes the reservations of callers that had gone by then. Waiters whose quota has moved
// to another tree join its queue.
func (l *Ledger) replyAll(batch []*waiter, p plan) {
	for i, w := range batch {
		v := p.verdicts[i]
		if v.later {
			l.enqueueLater(v.elsewhere, w)
		} else if v.elsewhere != "" {
			l.queues.enqueue(v.elsewhere, w)
		} else if !l.counts.reply(w, v) && v.held != nil {
			l.revoked.withdraw(*v.held)
		}
	}
}

// enqueueLater enqueues a waiter again when the change of its quotas may have been observed.
func (l *Ledger) enqueueLater(top string, w *waiter) {
	if !w.deferred {
		w.deferred = true
		l.counts.waitsForChange.Add(1)
	}
	go func() {
		l.objects.awaitChange(w.ctx)
		l.queues.enqueue(top, w)
	}()
}

// awaitChange waits until the watch of the quotas brings something, or a moment. It returns false if ctx has ended.
func (o *objects) awaitChange(ctx context.Context) bool {
	select {
	case <-o.change():
	case <-time.After(maxChange / 100): // also for a change between the decision and now
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func failAll(batch []*waiter, err error) {
	for _, w := range batch {
		w.reply(verdict{err: err})
	}
}

// reply sends and counts an answer, and reports whether the waiter was still there.
func (c *counters) reply(w *waiter, v verdict) bool {
	here := w.reply(v)
	if here && v.err == nil {
		c.decided.Add(1)
	}
	return here
}
