package ratelimit

import (
	"container/list"
	"time"

	"golang.org/x/time/rate"
)

// maxBuckets is the maximum number of Buckets, which take about 3 MiB. Beyond that the least recently used
// one is dropped: that user begins again with a full bucket. Names are not kept, only their hashes, so that long names
// take no memory.
const maxBuckets = 8192

// Buckets are token buckets, one for each key, such as those of one limit. They are not safe for concurrent use.
type Buckets struct {
	rate  rate.Limit
	burst int
	byKey map[uint64]*list.Element
	used  list.List // of *bucket; the last one was used least recently
}

type bucket struct {
	key     uint64
	limiter *rate.Limiter
}

// NewBuckets returns buckets that get perSecond tokens in a second, and hold burst of them.
func NewBuckets(perSecond rate.Limit, burst int) *Buckets {
	return &Buckets{rate: perSecond, burst: burst, byKey: map[uint64]*list.Element{}}
}

// Wait returns the time until there is a token for a key, or 0. A key without a bucket has a full one.
func (b *Buckets) Wait(key uint64, now time.Time) time.Duration {
	found, ok := b.byKey[key]
	if !ok {
		return 0
	}
	b.used.MoveToFront(found)
	missing := 1 - found.Value.(*bucket).limiter.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return max(time.Duration(missing/float64(b.rate)*float64(time.Second)), 1)
}

// Take takes a token for a key for which Wait has just returned 0.
func (b *Buckets) Take(key uint64, now time.Time) {
	found, ok := b.byKey[key]
	if !ok {
		if len(b.byKey) >= maxBuckets {
			oldest := b.used.Back()
			delete(b.byKey, oldest.Value.(*bucket).key)
			b.used.Remove(oldest)
		}
		found = b.used.PushFront(&bucket{key, rate.NewLimiter(b.rate, b.burst)})
		b.byKey[key] = found
	}
	found.Value.(*bucket).limiter.AllowN(now, 1)
}
