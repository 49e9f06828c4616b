package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// grantPlan describes the grants of this replica in the next record.
type grantPlan struct {
	at     int64 // identifies them
	next   int   // the number of the first admitted pod that the record does not name
	pruned int
	of     map[string]plannedGrant // by quota
	ended  bool
	due    bool // the record is to be written for them alone
	demand map[string]demand
	held   []*reservation // for new pods of this plan

	before map[string]sum // the limits before the write
}

// plannedGrant is the grant in one quota.
type plannedGrant struct {
	path  []*quota.Quota
	total sum // of what was spent when the plan was made
	room  sum // that may be spent from then on; nil if there is no grant
}

// idle reports whether there are no grants, and none are made.
func (p *grantPlan) idle() bool { return p == nil || len(p.of) == 0 && !p.due }

// limit returns the total that may be reached.
func (p plannedGrant) limit() sum {
	all := sum{}
	for name, amount := range p.room {
		all[name] = p.total[name]
		all.plus(name, amount)
	}
	return all
}

// enterSpent replaces the grants of this replica in a record by reservations for the pods that were admitted against
// them, and returns the plan for new ones, which has none yet. If the record cannot hold all these reservations, it stays
// as it is, and there is no plan.
func (l *Ledger) enterSpent(a *accounts, v view, r record) (record, *grantPlan) {
	if !l.options.Grants {
		return r, nil
	}
	next, stopped := r, false
	next.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(one reservation) bool {
		own := one.Grant && one.By == l.options.Replica
		stopped = stopped || own && r.stops(v.tree.Path(one.Quota))
		return own
	})
	l.grants.mu.Lock()
	defer l.grants.mu.Unlock()
	made, key := &grantPlan{at: v.now.UnixMilli(), of: map[string]plannedGrant{}, demand: map[string]demand{}}, keyOf(v.top.Quota)
	if r.Recall != "" {
		l.grants.until[key] = v.now.Add(grantUse)
	}
	made.ended = l.grants.ended || v.now.Before(l.grants.until[key])
	in, entered := l.grants.in[key], len(next.Pods) < len(r.Pods)
	made.due = entered && (in == nil || l.grants.ended || !in.usable(v.now) || in.due(v.now) || stopped)
	if in == nil {
		return next, made
	}
	made.at, made.next, made.pruned = max(made.at, in.last+1), in.first+len(in.spent), in.pruned
	for name, one := range in.of {
		made.due = made.due || entered && one.low()
		made.of[name], made.demand[name] = plannedGrant{total: maps.Clone(one.total)}, one.demand.copy()
	}
	if !a.enter(&next, in.spent, l.revoked) {
		return r, nil
	}
	return next, made
}

// overdue returns those pods admitted against grants that the record cannot hold and that would have appeared by now.
func (l *Ledger) overdue(v view, p *grantPlan) (all []reservation) {
	l.grants.mu.Lock()
	defer l.grants.mu.Unlock()
	in := l.grants.in[keyOf(v.top.Quota)]
	if p != nil || in == nil {
		return nil
	}
	for _, one := range in.spent {
		if one.expired(v.now, l.options.Expiry) && !l.revoked.has(&one) {
			all = append(all, one)
		}
	}
	return all
}

// enter adds the reservations that are pending, and not revoked, to a record, and reports whether it holds them.
func (a *accounts) enter(r *record, spent []reservation, revoked *revoked) bool {
	at := map[string][]int{}
	for i := range r.Pods {
		at[r.Pods[i].Pod] = append(at[r.Pods[i].Pod], i)
	}
	for _, one := range spent {
		stands, since := a.pending(&one)
		if !stands || revoked.has(&one) {
			r.Seen = newest(r.Seen, since)
			continue
		}
		places := at[one.Pod]
		same := slices.IndexFunc(places, func(i int) bool { return one.alike(&r.Pods[i]) }) // also of a write that seemed to fail
		if same >= 0 {
			one.merge(&r.Pods[places[same]])
		}
		if one.encode() != nil {
			return false
		}
		if same >= 0 {
			r.Pods[places[same]] = one
		} else {
			at[one.Pod] = append(places, len(r.Pods))
			r.Pods = append(r.Pods, one)
		}
	}
	all, of := r.size()
	return all <= maxRecord && !slices.ContainsFunc(slices.Collect(maps.Values(of)), func(n int) bool { return n > maxRecord/2 })
}

// takeGrants adds new grants to a plan, in the quotas where this replica has admitted several pods lately.
func (l *Ledger) takeGrants(v view, counted *holdings, p *grantPlan, stopped func(path []*quota.Quota) bool, spent *budget) {
	for _, held := range p.held {
		d := p.demand[held.Quota]
		d.add(v.now, held.Request)
		p.demand[held.Quota] = d
	}
	for _, name := range slices.Sorted(maps.Keys(p.demand)) {
		d, one := p.demand[name], p.of[name]
		d.turn(v.now)
		one.path = counted.path(name)
		if n := len(one.path); n > 0 && one.path[n-1].Name == v.top.Quota.Name && !stopped(one.path) && !p.ended {
			one.room = counted.share(one.path, d, v.latest)
		}
		if one.room != nil {
			if r := l.entryOf(v, name, p.at, one.room); r.encode() == nil && spent.add(v.top.Quota.Namespace, len(r.json)+1) {
				counted.hold(r)
			} else {
				one.room = nil
			}
		}
		p.of[name] = one
	}
}

// entryOf returns a grant as the record holds it. No pod can have its name. A replica of an earlier version takes it for the
// reservation of a pod that does not appear.
func (l *Ledger) entryOf(v view, name string, at int64, room sum) *reservation {
	return &reservation{Grant: true, Pod: v.top.Quota.Namespace + "/_" + l.options.Replica + "_" + v.top.Quota.Name + "_" + name,
		Quota: name, Request: api.ResourceList(room), At: at, By: l.options.Replica}
}

// share returns the amount of a new grant in the first quota of a path: twice what its pods lately needed, at most a quarter
// of the room that is left; nil if that is too little to be worth a grant.
func (h *holdings) share(path []*quota.Quota, d demand, latest func(*quota.Quota) *quota.Quota) sum {
	if d.pods+d.last < grantFrom {
		return nil
	}
	share, need := sum{}, d.total()
	for name, amount := range need {
		share[name] = amount
		share.plus(name, amount)
	}
	for _, q := range path {
		for name := range need {
			limit, _, limited := latest(q).Limit(name)
			if !limited {
				continue
			}
			left := limit.DeepCopy()
			left.Sub(h.accounts.used[q.Name][name])
			left.Sub(h.reserved[q.Name][name])
			if part, now := quarter(left), share[name]; part.Cmp(now) < 0 {
				share[name] = part
			}
		}
	}
	for name, amount := range need { // at least grantFrom of the pods
		least, most := amount.DeepCopy(), share[name].DeepCopy()
		least.Mul(grantFrom)
		most.Mul(int64(d.pods + d.last))
		if amount.Sign() > 0 && most.Cmp(least) < 0 {
			return nil
		}
	}
	return share
}

// grantFrom is the number of pods in a quota, in up to two periods of grantUse, from which a replica takes a grant there.
// A grant for fewer pods costs more writes than it saves.
const grantFrom = 5

// quarter returns at most a quarter of an amount.
func quarter(q quota.Amount) quota.Amount {
	if q.Sign() <= 0 {
		return quota.Amount{Format: q.Format}
	}
	if whole := q.Value(); whole > 1<<40 {
		return *resource.NewQuantity((whole-1)/4, q.Format)
	}
	return *resource.NewMilliQuantity((q.MilliValue()-1)/4, q.Format)
}

// copy returns a demand that shares nothing.
func (d demand) copy() demand {
	d.now, d.before = maps.Clone(d.now), maps.Clone(d.before)
	return d
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

// allows reports whether what was spent since the plan was made is within the planned grant.
func (p plannedGrant) allows(total sum) bool {
	limit := p.limit()
	for name, now := range total {
		if most, ok := limit[name]; now.Cmp(p.total[name]) > 0 && (!ok || now.Cmp(most) > 0) {
			return false
		}
	}
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
		if one.demand.turn(began); one.room == nil && one.demand.pods+one.demand.last == 0 {
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
