package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// write stores the record of a plan. It returns errWaited if more was spent of the grants of this replica than the plan knows.
func (l *Ledger) write(ctx context.Context, v view, p plan) error {
	if p.grants.idle() {
		return l.records.write(ctx, v, p)
	}
	key := keyOf(v.top.Quota)
	unlock := l.grants.lock(ctx, key)
	if unlock == nil {
		return busy(context.Cause(ctx))
	}
	defer unlock()
	began := l.options.Now()
	if !l.grants.begin(key, p.grants) {
		return errWaited
	}
	err := l.records.write(ctx, v, p)
	switch {
	case err == nil:
		if l.grants.written(key, p.grants, began) {
			time.AfterFunc(grantUse, func() { l.grants.renewOld(key, p.grants.at) })
		}
	case errors.Is(err, ErrConflict), errors.Is(err, ErrGone):
		l.grants.notWritten(key, p.grants)
	}
	return err
}

// begin prepares for the write of a plan: until its outcome is known, only what the record allows both before and after it is
// spent. It returns false if more than that was spent since the plan was made.
func (g *grants) begin(key types.NamespacedName, p *grantPlan) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.in[key]
	if in.pruned != p.pruned {
		return false
	}
	for name, one := range in.of {
		if planned, known := p.of[name]; !known || !planned.allows(one.total) {
			return false
		}
	}
	p.before = map[string]sum{}
	for name, planned := range p.of {
		one := in.of[name]
		if one == nil {
			one = &grant{total: sum{}}
			in.of[name] = one
		}
		p.before[name], one.limit = one.limit, least(one.limit, planned.limit())
	}
	in.new, in.last = p.at, max(in.last, p.at)
	return true
}

// least returns the resources that both limits name, with the smaller of the two amounts.
func least(a, b sum) sum {
	both := sum{}
	for name, amount := range a {
		if other, ok := b[name]; ok {
			if both[name] = amount; other.Cmp(amount) < 0 {
				both[name] = other
			}
		}
	}
	return both
}

// written puts the grants of a plan that was written in force. The write began at a time.
func (g *grants) written(key types.NamespacedName, p *grantPlan, began time.Time) (any bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.in[key]
	in.at, in.begun = p.at, began
	in.spent, in.first = slices.Clone(in.spent[p.next-in.first:]), p.next
	for name, planned := range p.of {
		one := in.of[name]
		one.path, one.room, one.limit = planned.path, planned.room, planned.limit()
		any = any || planned.room != nil
	}
	for _, held := range p.held {
		in.of[held.Quota].demand.add(began, held.Request)
	}
	for name, one := range in.of {
		if one.demand.rotate(began); one.room == nil && one.demand.pods+one.demand.last == 0 {
			delete(in.of, name)
			in.pruned++
		}
	}
	return any
}

// notWritten restores what was in force before a write that has certainly failed.
func (g *grants) notWritten(key types.NamespacedName, p *grantPlan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.in[key]
	for name, limit := range p.before {
		in.of[name].limit = limit
	}
	in.new, in.check = in.at, grantCheck{}
}

// current reports whether the grants of a time are in force, and no newer ones.
func (g *grants) current(key types.NamespacedName, at int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.in[key]
	return in != nil && in.at == at
}

// renewOld lets grants be renewed, or given back, when their time is over.
func (g *grants) renewOld(key types.NamespacedName, at int64) {
	if g.current(key, at) {
		g.queues.renewSoon(key.Name)
	}
}

// lock waits until no other write of a record is under way. It returns nil if ctx ends first.
func (g *grants) lock(ctx context.Context, key types.NamespacedName) (unlock func()) {
	g.mu.Lock()
	in := g.in[key]
	if in == nil {
		in = &granted{writing: make(chan struct{}, 1), of: map[string]*grant{}}
		g.in[key] = in
	}
	g.mu.Unlock()
	select {
	case in.writing <- struct{}{}:
		return func() { <-in.writing }
	case <-ctx.Done():
		return nil
	}
}
