package handlers

import (
	"hash/maphash"
	"sync"
	"time"
)

// Of lines about failures with the same cause, the first mostAlike of every alikeTime are written. At most maxAlike
// causes are distinguished.
const mostAlike, maxAlike, alikeTime = 10, 1000, 10 * time.Second

// repeats counts lines that are alike, of which the first most of every so often are written.
type repeats struct {
	most  int
	every time.Duration
	mu    sync.Mutex
	since map[uint64]*alike
}

// alike are lines that are alike, since a moment.
type alike struct {
	since            time.Time
	written, dropped int
}

var alikeSeed = maphash.MakeSeed()

// allow reports whether to write a line about a cause, and returns how many like it have been dropped before.
func (r *repeats) allow(cause string, now time.Time) (write bool, dropped int) {
	key := maphash.String(alikeSeed, cause)
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.since[key]
	if seen == nil {
		if len(r.since) >= maxAlike || r.since == nil {
			r.since = map[uint64]*alike{}
		}
		seen = &alike{since: now}
		r.since[key] = seen
	}
	if now.Sub(seen.since) >= r.every {
		dropped = seen.dropped
		*seen = alike{since: now}
	}
	if seen.written >= r.most {
		seen.dropped++
		return false, 0
	}
	seen.written++
	return true, dropped
}
