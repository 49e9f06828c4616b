package ledger

import (
	"maps"
	"sync"
	"time"
)

// answers are those that hold no room any more, whatever a record says: nobody heard them, because the caller had gone or the write seemed to
// fail; or their pods have not come, and will not. The next write takes them out of the record. They are remembered for longer: a write
// that seemed to fail may still come into force.
type answers struct {
	expiry time.Duration
	now    func() time.Time

	mu    sync.Mutex
	until map[answer]time.Time // it matters
	prune time.Time            // when they are looked through next
}

func newAnswers(o Options) *answers {
	return &answers{expiry: o.Expiry, now: o.Now, until: map[answer]time.Time{}}
}

func (a *answers) add(all ...reservation) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range all {
		a.until[all[i].answer()] = now.Add(2 * a.expiry)
	}
	if now.After(a.prune) {
		a.prune = now.Add(a.expiry)
		maps.DeleteFunc(a.until, func(_ answer, end time.Time) bool { return end.Before(now) })
	}
}

func (a *answers) has(r *reservation) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, has := a.until[r.answer()]
	return has
}
