// Package ratelimit limits how many reviews of a user, a namespace or a route are decided in a second, as the section
// limits of the policy says.
package ratelimit

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"usher.dev/usher/admit"
)

// Limits are the limits of the policies that have been in force, with their buckets. The zero value is not valid.
type Limits struct {
	now     func() time.Time
	current atomic.Pointer[[]*limit]
	mu      sync.Mutex // guards buckets and counts, of limits that were replaced, too: all tokens of a review are taken at once
}

// limit is a limit of the policy with its buckets.
type limit struct {
	Limit
	buckets  *Buckets
	exceeded uint64
}

// New returns limits that limit nothing before Use is called.
func New(now func() time.Time) *Limits {
	l := &Limits{now: now}
	l.current.Store(&[]*limit{})
	return l
}

// Use activates the limits of a policy. A limit that has not changed keeps its buckets. The counts are kept by name.
func (l *Limits) Use(policy Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var next []*limit
	for _, want := range policy {
		made := &limit{Limit: want}
		if before := l.named(want.Name); before != nil {
			made.exceeded = before.exceeded
			if reflect.DeepEqual(before.Limit, want) {
				made = before
			}
		}
		if made.buckets == nil {
			made.buckets = NewBuckets(rate.Limit(want.PerSecond), want.Burst)
		}
		next = append(next, made)
	}
	l.current.Store(&next)
}

func (l *Limits) named(name string) *limit {
	for _, have := range *l.current.Load() {
		if have.Name == name {
			return have
		}
	}
	return nil
}

// Of returns the function that takes the tokens for a review on a route, or nil if no limit is about the route. It
// returns the limit that the review has exceeded, if any; a limit that refuses before a limit that only counts. A review
// that is refused takes no token from any limit: otherwise a user beyond a limit of users would use up the limit of the
// route for all. Limits refuse no review on a route for heartbeats, and count those only if they name the route.
func (l *Limits) Of(route string, heartbeat bool) func(*admit.Request) admit.LimitExceeded {
	var about []*limit
	for _, one := range *l.current.Load() {
		if slices.Contains(one.Routes, route) || len(one.Routes) == 0 && !heartbeat {
			about = append(about, one)
		}
	}
	if len(about) == 0 {
		return nil
	}
	path := maphash.String(hashSeed, route)
	return func(req *admit.Request) admit.LimitExceeded {
		var room [maxLimits]demand
		demands := room[:0]
		for _, one := range about {
			if !one.exempts(req) {
				demands = append(demands, demand{one, one.key(path, req), !heartbeat && one.Mode != LimitLog})
			}
		}
		return l.take(demands)
	}
}

// demand is a token that a review needs.
type demand struct {
	limit   *limit
	key     uint64
	refuses bool // the review, if there is none; or else it is only counted
}

// take takes all tokens, or none if the review is refused.
func (l *Limits) take(demands []demand) (worst admit.LimitExceeded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, there := l.now(), demands[:0]
	for _, d := range demands {
		wait := d.limit.buckets.Wait(d.key, now)
		if wait == 0 {
			there = append(there, d)
			continue
		}
		d.limit.exceeded++
		if worst.Limit == "" || d.refuses && !worst.Refuse || d.refuses == worst.Refuse && wait > worst.Wait {
			worst = admit.LimitExceeded{Limit: d.limit.Name, Refuse: d.refuses, Wait: wait}
		}
	}
	if worst.Refuse {
		return worst
	}
	for _, d := range there {
		d.limit.buckets.Take(d.key, now)
	}
	return worst
}

// hashSeed makes the keys of buckets unpredictable, so that a user cannot choose a name to share the bucket of another.
var hashSeed = maphash.MakeSeed()

// key returns the key of the bucket for a request.
func (l *limit) key(path uint64, req *admit.Request) uint64 {
	switch l.By {
	case ByUser:
		return mix(path, req.UserInfo.Username)
	case ByNamespace:
		return mix(path, req.Namespace)
	}
	return path
}

// exempts reports whether a request takes no token. One for a cluster-scoped object is in no namespace.
func (l *limit) exempts(req *admit.Request) bool {
	return slices.Contains(l.ExemptUsers, req.UserInfo.Username) || slices.Contains(l.ExemptNamespaces, req.Namespace) ||
		slices.ContainsFunc(req.UserInfo.Groups, func(group string) bool { return slices.Contains(l.ExemptGroups, group) }) ||
		l.By == ByNamespace && req.Namespace == ""
}

// mix returns the key of a name on a path.
func mix(path uint64, name string) uint64 {
	return path*0x9e3779b97f4a7c15 ^ maphash.String(hashSeed, name)
}

// Status is the state of a limit, for metrics.
type Status struct {
	Name     string
	Exceeded uint64 // reviews beyond the limit
	Buckets  int
}

// Status returns the state of the limits in force.
func (l *Limits) Status() (all []Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range *l.current.Load() {
		all = append(all, Status{one.Name, one.exceeded, len(one.buckets.byKey)})
	}
	return all
}
