package ratelimit

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A limit has at most shards × perShard buckets, which take about 3 MiB. Beyond that the least recently used bucket is
// dropped: that user begins again with a full bucket. Names are not kept, only their hashes, so that long names take no
// memory.
const shards, perShard = 16, 512

// buckets are the token buckets of one limit. They are divided into shards, each with a lock of its own.
type buckets struct {
	rate  rate.Limit
	burst int
	of    [shards]shard
}

type shard struct {
	mu    sync.Mutex
	byKey map[uint64]*list.Element
	used  list.List // of *bucket; the last one was used least recently
}

type bucket struct {
	key     uint64
	limiter *rate.Limiter
}

func newBuckets(perSecond rate.Limit, burst int) *buckets {
	b := &buckets{rate: perSecond, burst: burst}
	for i := range b.of {
		b.of[i].byKey = map[uint64]*list.Element{}
	}
	return b
}

// take takes a token, and returns 0, or the time until there is one.
func (b *buckets) take(key uint64, now time.Time) time.Duration {
	s := &b.of[key%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	limiter := s.limiter(key, b)
	if limiter.AllowN(now, 1) {
		return 0
	}
	missing := 1 - limiter.TokensAt(now)
	return max(time.Duration(missing/float64(b.rate)*float64(time.Second)), 1)
}

// limiter returns the bucket of a key, and makes it if there is none. The caller holds the lock.
func (s *shard) limiter(key uint64, b *buckets) *rate.Limiter {
	if found, ok := s.byKey[key]; ok {
		s.used.MoveToFront(found)
		return found.Value.(*bucket).limiter
	}
	if s.used.Len() >= perShard {
		oldest := s.used.Back()
		delete(s.byKey, oldest.Value.(*bucket).key)
		s.used.Remove(oldest)
	}
	made := &bucket{key, rate.NewLimiter(b.rate, b.burst)}
	s.byKey[key] = s.used.PushFront(made)
	return made.limiter
}

func (b *buckets) count() (n int) {
	for i := range b.of {
		s := &b.of[i]
		s.mu.Lock()
		n += len(s.byKey)
		s.mu.Unlock()
	}
	return n
}
