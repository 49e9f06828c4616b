package checker

import (
	"fmt"
	"slices"
)

// sums holds what the pods of each quota count for. Pods are identified by their keys, because at any time at most one
// pod has a name. All amounts are thousandths of a core.
type sums struct {
	quotas map[string]*quota
	pods   map[string]*entry
}

// quota is a quota, and what the pods in it and below it count for.
type quota struct {
	parent string
	limit  int64

	asked, held int64
	// claimed is the amount that the pods may come to hold without another admission.
	claimed int64
	// bound is the limit, except while a limit that was lowered is exceeded by what was admitted before. It is never
	// raised again by pods: room that they give back is gone.
	bound int64
}

// entry is a pod or what is reserved for it, or both.
type entry struct {
	stored   amounts
	in       string   // the quota of the stored pod; empty if there is none
	reserved []charge // usually one
}

// charge is the amount reserved in a quota.
type charge struct {
	quota string
	cpu   int64
}

// amounts holds what a stored pod counts for.
type amounts struct {
	asked   int64 // by its spec
	held    int64 // by its node
	claimed int64 // what it may come to hold by itself
}

// overshoot is a quota that a pod took above its bound.
type overshoot struct {
	quota       string
	held, bound int64
}

func (o overshoot) String() string {
	return fmt.Sprintf("quota %s to %d of %d", o.quota, o.held, o.bound)
}

// path returns the names of a quota and of all quotas above it.
func (s *sums) path(name string) (path []string) {
	for q := s.quotas[name]; q != nil; name, q = q.parent, s.quotas[q.parent] {
		path = append(path, name)
	}
	return path
}

// counts returns what a pod counts for in each quota. There it is counted once, also if it is both stored and reserved.
func (s *sums) counts(e *entry) map[string]amounts {
	in := map[string]amounts{}
	for _, name := range s.path(e.in) {
		in[name] = e.stored
	}
	for _, r := range e.reserved {
		for _, name := range s.path(r.quota) {
			one := in[name]
			one.claimed = max(one.claimed, r.cpu)
			in[name] = one
		}
	}
	return in
}

func (s *sums) add(e *entry, sign int64) {
	for name, one := range s.counts(e) {
		q := s.quotas[name]
		q.asked += sign * one.asked
		q.held += sign * one.held
		q.claimed += sign * one.claimed
	}
}

// entry returns the entry of a pod, which may be empty.
func (s *sums) entry(key string) *entry {
	if e := s.pods[key]; e != nil {
		return e
	}
	return &entry{}
}

// set replaces the entry of a pod, and returns the quotas that this took above their bound.
func (s *sums) set(key string, now *entry) (over []overshoot) {
	before := s.entry(key)
	held := map[string]int64{}
	for _, name := range slices.Concat(s.path(before.in), s.path(now.in)) {
		held[name] = s.quotas[name].held
	}
	s.add(before, -1)
	s.add(now, 1)
	s.pods[key] = now
	if now.in == "" && len(now.reserved) == 0 {
		delete(s.pods, key)
	}
	for name, was := range held {
		if q := s.quotas[name]; q.held > was && q.held > q.bound {
			over = append(over, overshoot{name, q.held, q.bound})
		}
	}
	s.tighten()
	return over
}

// tighten lowers the bounds to what is still claimed.
func (s *sums) tighten() {
	for _, q := range s.quotas {
		q.bound = max(q.limit, min(q.bound, q.claimed))
	}
}

// place creates a quota, or changes its parent or its limit. Neither is an admission: where more is claimed now than a
// quota may hold, what is claimed stays allowed.
func (s *sums) place(name, parent string, limit int64) {
	q := s.quotas[name]
	if q == nil {
		q = &quota{}
		s.quotas[name] = q
	}
	moved := q.parent != parent
	q.parent, q.limit = parent, limit
	if moved {
		s.recount()
		for _, above := range s.path(parent) {
			s.quotas[above].bound = max(s.quotas[above].bound, s.quotas[above].claimed)
		}
	}
	s.tighten()
}

// recount computes all sums anew.
func (s *sums) recount() {
	for _, q := range s.quotas {
		q.asked, q.held, q.claimed = 0, 0, 0
	}
	for _, e := range s.pods {
		s.add(e, 1)
	}
}
