// Package ratelimit limits how many reviews of a user, a namespace or a route are decided in a second, as the section
// limits of the policy says.
package ratelimit

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"usher.dev/usher/admit"
)

// Limits are the limits of the policies that have been in force, with their buckets. The zero value is not valid.
type Limits struct {
	now     func() time.Time
	current atomic.Pointer[[]*limit]
}

// limit is a limit of the policy with its buckets.
type limit struct {
	Limit
	buckets  *buckets
	log      bool // reviews beyond it are only counted
	exceeded atomic.Uint64
}

// New returns limits that limit nothing before Use is called.
func New(now func() time.Time) *Limits {
	l := &Limits{now: now}
	l.current.Store(&[]*limit{})
	return l
}

// Use activates the limits of a policy. A limit that has not changed keeps its buckets. The counts are kept by name.
func (l *Limits) Use(policy Policy) {
	var next []*limit
	for _, want := range policy {
		made := &limit{Limit: want, log: want.Mode == LimitLog}
		if before := l.named(want.Name); before != nil {
			made.exceeded.Store(before.exceeded.Load())
			if reflect.DeepEqual(before.Limit, want) {
				made = before
			}
		}
		if made.buckets == nil {
			made.buckets = newBuckets(rate.Limit(want.PerSecond), want.Burst)
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
// returns the limit that the review has exceeded, if any; a limit that refuses before a limit that only counts. Limits
// refuse no review on a route for heartbeats, and count those only if they name the route.
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
	return func(req *admit.Request) (worst admit.LimitExceeded) {
		now := l.now()
		for _, one := range about {
			wait := one.take(path, req, now)
			if wait == 0 {
				continue
			}
			refuse := !heartbeat && !one.log
			if worst.Limit == "" || refuse && !worst.Refuse || refuse == worst.Refuse && wait > worst.Wait {
				worst = admit.LimitExceeded{Limit: one.Name, Refuse: refuse, Wait: wait}
			}
		}
		return worst
	}
}

// hashSeed makes the keys of buckets unpredictable, so that a user cannot choose a name to share the bucket of another.
var hashSeed = maphash.MakeSeed()

// take takes a token for a request, or returns the time until there is one.
func (l *limit) take(path uint64, req *admit.Request, now time.Time) time.Duration {
	if l.exempts(req) {
		return 0
	}
	key := path
	switch l.By {
	case ByUser:
		key = mix(path, req.UserInfo.Username)
	case ByNamespace:
		key = mix(path, req.Namespace)
	}
	wait := l.buckets.take(key, now)
	if wait > 0 {
		l.exceeded.Add(1)
	}
	return wait
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
	for _, one := range *l.current.Load() {
		all = append(all, Status{one.Name, one.exceeded.Load(), one.buckets.count()})
	}
	return all
}
