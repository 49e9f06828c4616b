package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/test/seed"
)

// TestOneUserDoesNotUseUpTheRoute: what a user sends beyond a limit of users takes nothing from the limit of the route.
func TestOneUserDoesNotUseUpTheRoute(t *testing.T) {
	c := newClock()
	l := New(c.now)
	l.Use(Policy{{Name: "all", By: ByRoute, PerSecond: 50, Burst: 100}, {Name: "users", By: ByUser, PerSecond: 5, Burst: 10}})
	take := l.Of(path, false)
	for range 20 {
		for range 200 {
			take(by("mallory", ""))
		}
		if got := take(by("alice", "")); got.Refuse {
			t.Errorf("alice is refused by the limit %s", got.Limit)
		}
		c.pass(time.Second / 2)
	}
}

// model is what limits should do, with whole tokens. Its clock moves in whole seconds.
type model struct {
	policy Policy
	tokens []map[string]int // of each limit and bucket; one that is not there is full
}

func newModel(policy Policy) *model {
	m := &model{policy: policy}
	for range policy {
		m.tokens = append(m.tokens, map[string]int{})
	}
	return m
}

// bucket returns the tokens of a request in a limit, or false if it needs none.
func (m *model) bucket(i int, req *admit.Request) (key string, tokens int, needed bool) {
	l := m.policy[i]
	switch l.By {
	case ByUser:
		key = req.UserInfo.Username
	case ByNamespace:
		key = req.Namespace
	}
	tokens, known := m.tokens[i][key]
	if !known {
		tokens = l.Burst
	}
	return key, tokens, !slices.Contains(l.ExemptUsers, req.UserInfo.Username) && (l.By != ByNamespace || req.Namespace != "")
}

// take returns whether a review is refused, and whether it is beyond any limit.
func (m *model) take(req *admit.Request) (refused, beyond bool) {
	for i, l := range m.policy {
		if _, tokens, needed := m.bucket(i, req); needed && tokens == 0 {
			refused, beyond = refused || l.Mode != LimitLog, true
		}
	}
	if refused {
		return refused, beyond
	}
	for i := range m.policy {
		if key, tokens, needed := m.bucket(i, req); needed && tokens > 0 {
			m.tokens[i][key] = tokens - 1
		}
	}
	return refused, beyond
}

func (m *model) pass(seconds int) {
	for i, l := range m.policy {
		for key, tokens := range m.tokens[i] {
			m.tokens[i][key] = min(l.Burst, tokens+seconds*int(l.PerSecond))
		}
	}
}

// draw returns limits of all kinds, and requests that share some of their buckets.
func draw(random *rand.Rand) (policy Policy, requests []*admit.Request) {
	for i := range 1 + random.IntN(maxLimits) {
		one := Limit{Name: fmt.Sprint("limit", i), By: []LimitBy{ByUser, ByNamespace, ByRoute}[random.IntN(3)], PerSecond: float64(1 + random.IntN(9)), Burst: 1 + random.IntN(60)}
		if random.IntN(4) == 0 {
			one.Mode = LimitLog
		}
		if random.IntN(4) == 0 {
			one.ExemptUsers = []string{"user0"}
		}
		policy = append(policy, one)
	}
	for range 50 {
		requests = append(requests, by(fmt.Sprint("user", random.IntN(5)), []string{"", "a", "b", "c"}[random.IntN(4)]))
	}
	return policy, requests
}

// TestAllOrNothing: a review takes a token from each limit, or from none if one of them refuses it.
func TestAllOrNothing(t *testing.T) {
	random := seed.Random(t)
	for round := range 80 {
		policy, requests := draw(random)
		c, m := newClock(), newModel(policy)
		l := New(c.now)
		l.Use(policy)
		take := l.Of(path, false)
		for range 1000 {
			req := requests[random.IntN(len(requests))]
			got := take(req)
			if refused, beyond := m.take(req); got.Refuse != refused || (got.Limit != "") != beyond {
				t.Fatalf("round %d: %+v: refused %v and beyond a limit %v, want %v and %v\n%+v", round, req, got.Refuse, got.Limit != "", refused, beyond, policy)
			}
			if random.IntN(100) == 0 {
				seconds := 1 + random.IntN(3)
				c.pass(time.Duration(seconds) * time.Second)
				m.pass(seconds)
			}
		}
	}
}

// TestAllOrNothingAtOnce: callers on all processors get what they would get one after the other: of those that pass, each
// has taken a token from each limit, and the others nothing.
func TestAllOrNothingAtOnce(t *testing.T) {
	random := seed.Random(t)
	for round := range 20 {
		policy, requests := draw(random)
		l := New(newClock().now)
		l.Use(policy)
		take := l.Of(path, false)
		passed := make([][]*admit.Request, 8)
		var all sync.WaitGroup
		for worker := range passed {
			all.Go(func() {
				for i := range 200 {
					if req := requests[(worker*7+i)%len(requests)]; !take(req).Refuse {
						passed[worker] = append(passed[worker], req)
					}
				}
			})
		}
		all.Wait()
		m := newModel(policy)
		for _, req := range slices.Concat(passed...) {
			if refused, _ := m.take(req); refused {
				t.Fatalf("round %d: more pass than there are tokens\n%+v", round, policy)
			}
		}
		for _, req := range requests {
			if got, want := take(req).Refuse, first(m.take(req)); got != want {
				t.Fatalf("round %d: %+v is refused: %v, want %v: those that were refused have taken tokens\n%+v", round, req, got, want, policy)
			}
		}
	}
}

func first(refused, _ bool) bool { return refused }
