package ratelimit

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/test/seed"
)

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Unix(1_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func by(user, namespace string, groups ...string) *admit.Request {
	return &admit.Request{Namespace: namespace, UserInfo: authenticationv1.UserInfo{Username: user, Groups: groups}}
}

const path = "/mutate-pods"

type excess = admit.LimitExceeded

// TestOf: which requests share a bucket, and which take no token. The bucket of the first holds one token, and is empty.
func TestOf(t *testing.T) {
	for _, test := range []struct {
		name      string
		limit     Limit
		route     string
		heartbeat bool
		req       *admit.Request
		exceeded  bool
	}{
		{"the same user", Limit{By: ByUser}, path, false, by("ann", "b"), true},
		{"another user", Limit{By: ByUser}, path, false, by("bob", "a"), false},
		{"the same user elsewhere", Limit{By: ByUser}, "/validate-pods", false, by("ann", "a"), false},
		{"the same namespace", Limit{By: ByNamespace}, path, false, by("bob", "a"), true},
		{"another namespace", Limit{By: ByNamespace}, path, false, by("ann", "b"), false},
		{"no namespace", Limit{By: ByNamespace}, path, false, by("ann", ""), false},
		{"the same route", Limit{By: ByRoute}, path, false, by("bob", "b"), true},
		{"another route", Limit{By: ByRoute}, "/validate-pods", false, by("ann", "a"), false},
		{"an exempt user", Limit{By: ByRoute, ExemptUsers: []string{"bob"}}, path, false, by("bob", "a"), false},
		{"an exempt group", Limit{By: ByRoute, ExemptGroups: []string{"g"}}, path, false, by("bob", "a", "f", "g"), false},
		{"an exempt namespace", Limit{By: ByRoute, ExemptNamespaces: []string{"b"}}, path, false, by("bob", "b"), false},
		{"a listed route", Limit{By: ByRoute, Routes: []string{path}}, path, false, by("bob", "b"), true},
		{"heartbeats", Limit{By: ByRoute}, path, true, by("bob", "b"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.limit.Name, test.limit.PerSecond, test.limit.Burst = "l", 1, 1
			l := New(newClock().now)
			l.Use(Policy{test.limit})
			l.Of(path, false)(by("ann", "a"))
			take := l.Of(test.route, test.heartbeat)
			if take == nil {
				take = func(*admit.Request) (none excess) { return none }
			}
			if got := take(test.req); got.Limit == "l" != test.exceeded || got.Refuse != test.exceeded {
				t.Errorf("%+v, want exceeded: %v", got, test.exceeded)
			}
		})
	}
	l := New(newClock().now)
	l.Use(Policy{{Name: "l", By: ByUser, Routes: []string{"/validate-pods"}, PerSecond: 1, Burst: 1}})
	if l.Of(path, false) != nil {
		t.Error("a route that no limit is about has a function to call")
	}
}

// TestHeartbeatsAreOnlyCounted: also by a limit that names their route.
func TestHeartbeatsAreOnlyCounted(t *testing.T) {
	l := New(newClock().now)
	l.Use(Policy{{Name: "l", By: ByRoute, Routes: []string{path}, PerSecond: 1, Burst: 1}})
	take := l.Of(path, true)
	take(by("a", ""))
	if got := take(by("a", "")); got.Limit != "l" || got.Refuse || l.Status()[0].Exceeded != 1 {
		t.Errorf("%+v, %+v", got, l.Status())
	}
}

// TestWait: a review that comes back after the time that it was told finds a token, and not before.
func TestWait(t *testing.T) {
	random := seed.Random(t)
	for range 200 {
		c := newClock()
		l := New(c.now)
		perSecond := 0.001 + 100*random.Float64()
		l.Use(Policy{{Name: "l", By: ByUser, PerSecond: perSecond, Burst: 1 + random.IntN(5)}})
		take := l.Of(path, false)
		var got excess
		for got.Limit == "" {
			got = take(by("ann", ""))
		}
		c.pass(got.Wait - time.Microsecond)
		if early := take(by("ann", "")); !early.Refuse {
			t.Errorf("at %v a second: a token comes before the wait of %s ends", perSecond, got.Wait)
		}
		c.pass(2 * time.Microsecond)
		if late := take(by("ann", "")); late.Refuse {
			t.Errorf("at %v a second: no token after %s, but in %s", perSecond, got.Wait, late.Wait)
		}
	}
}

// TestTwoLimits: a limit that refuses wins over a limit that only counts, and the longer wait over the shorter.
func TestTwoLimits(t *testing.T) {
	slow := Limit{Name: "slow", By: ByUser, PerSecond: 0.1, Burst: 1}
	fast := Limit{Name: "fast", By: ByUser, PerSecond: 1, Burst: 1}
	logged := slow
	logged.Name, logged.Mode = "logged", LimitLog
	for _, test := range []struct {
		limits Policy
		want   string
	}{{Policy{slow, fast}, "slow"}, {Policy{fast, slow}, "slow"}, {Policy{logged, fast}, "fast"},
		{Policy{fast, logged}, "fast"}, {Policy{logged}, "logged"}} {
		l := New(newClock().now)
		l.Use(test.limits)
		take := l.Of(path, false)
		take(by("ann", ""))
		if got := take(by("ann", "")); got.Limit != test.want || got.Refuse != (test.want != "logged") {
			t.Errorf("%v: %+v, want %s", test.limits, got, test.want)
		}
	}
}

// TestUse: a policy that changes something else keeps the buckets of a limit; the count stays in any case.
func TestUse(t *testing.T) {
	one := Limit{Name: "one", By: ByUser, PerSecond: 1, Burst: 1, ExemptUsers: []string{"root"}}
	other := Limit{Name: "other", By: ByRoute, PerSecond: 1, Burst: 1}
	l := New(newClock().now)
	empty := func() bool { return l.Of(path, false)(by("ann", "")).Limit == "one" }
	l.Use(Policy{one})
	if empty() || !empty() {
		t.Fatal("the bucket does not hold one token")
	}
	same := one
	same.ExemptUsers = []string{"root"}
	l.Use(Policy{other, same})
	if !empty() {
		t.Error("an unchanged limit has lost its buckets")
	}
	one.Burst = 2
	l.Use(Policy{one})
	if empty() || l.Status()[0].Exceeded != 2 {
		t.Errorf("a changed limit begins with full buckets, and keeps its count: %+v", l.Status())
	}
	l.Use(nil)
	if l.Of(path, false) != nil || len(l.Status()) != 0 {
		t.Error("limits remain")
	}
}

// TestBucketsAreBounded: a million names, some of them long, take a few MiB, and a user who keeps on coming is not
// forgotten.
func TestBucketsAreBounded(t *testing.T) {
	l := New(newClock().now)
	l.Use(Policy{{Name: "l", By: ByUser, PerSecond: 0.001, Burst: 1}})
	take := l.Of(path, false)
	take(by("noisy", ""))
	before := heap()
	req, noisy, long := by("", ""), by("noisy", ""), fmt.Sprintf("%01000d", 0)
	for i := range 1_000_000 {
		req.UserInfo.Username = strconv.Itoa(i)
		if i%10 == 0 {
			req.UserInfo.Username += long
		}
		if take(req).Refuse {
			t.Fatalf("user %d shares a bucket with another", i)
		}
		if i%100 == 0 && !take(noisy).Refuse {
			t.Fatalf("after %d other users, the noisy one has a full bucket again", i)
		}
	}
	grown := int64(heap()) - int64(before)
	if n := l.Status()[0].Buckets; n != maxBuckets || grown > 8<<20 {
		t.Errorf("%d buckets take %d bytes", n, grown)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestConcurrently: the tokens that many users at once get are as many as there are.
func TestConcurrently(t *testing.T) {
	l := New(newClock().now)
	l.Use(Policy{{Name: "l", By: ByUser, PerSecond: 1, Burst: 10}})
	take := l.Of(path, false)
	passed := make([]int, 8)
	var all sync.WaitGroup
	for worker := range passed {
		all.Go(func() {
			for i := range 1000 {
				if !take(by(fmt.Sprint("user", i%20), "")).Refuse {
					passed[worker]++
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range passed {
		sum += n
	}
	if sum != 200 {
		t.Errorf("%d passed, want 10 of each of 20 users", sum)
	}
}

// BenchmarkTake measures the cost of a limit per review, on all processors at once.
func BenchmarkTake(b *testing.B) {
	l := New(time.Now)
	l.Use(Policy{{Name: "l", By: ByUser, PerSecond: 1e9, Burst: 1e9}})
	take := l.Of(path, false)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req := by("system:serviceaccount:apps:builder", "apps", "system:authenticated")
		for pb.Next() {
			take(req)
		}
	})
}
