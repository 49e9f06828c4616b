package ledger

import (
	"maps"
	"sync"
	"time"
)

// unheard are answers that nobody heard: the caller had gone by then, or the write seemed to fail. What they gave is taken back by the next
// write, and not forgotten then: a write that seemed to fail may still come into force.
type unheard struct {
	expiry time.Duration
	now    func() time.Time

	mu      sync.Mutex
	answers map[answer]time.Time // until when that matters
	prune   time.Time            // when they are looked through next
}

func newUnheard(o Options) *unheard {
	return &unheard{expiry: o.Expiry, now: o.Now, answers: map[answer]time.Time{}}
}

func (u *unheard) add(all ...reservation) {
	now := u.now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range all {
		if !all[i].Again {
			u.answers[all[i].answer()] = now.Add(2 * u.expiry)
		}
	}
	if now.After(u.prune) {
		u.prune = now.Add(u.expiry)
		maps.DeleteFunc(u.answers, func(_ answer, end time.Time) bool { return end.Before(now) })
	}
}

func (u *unheard) has(r *reservation) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, has := u.answers[r.answer()]
	return has
}
