package ledger

import (
	"maps"
	"slices"
)

// enterSpent replaces the grants of this replica in a record by reservations for the pods that were admitted against
// them, and returns the plan for new ones, which has none yet. If the record cannot hold all these reservations, it stays
// as it is, and there is no plan.
func (p *pending) enterSpent(a *accounts, v view, r record) (record, *grantPlan) {
	if !p.options.shared() { // a write costs nothing
		return r, nil
	}
	next, stopped := r, false
	next.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(one reservation) bool {
		own := one.Grant && one.By == p.options.Replica
		stopped = stopped || own && r.stops(v.tree.Path(one.Quota))
		return own
	})
	p.grants.mu.Lock()
	defer p.grants.mu.Unlock()
	made := &grantPlan{replica: p.options.Replica, at: v.now.UnixMilli(), of: map[string]plannedGrant{}, demand: map[string]demand{}}
	key := keyOf(v.top.Quota)
	if r.Recall != "" {
		p.grants.until[key] = v.now.Add(grantUse)
	}
	made.ended = p.grants.ended || v.now.Before(p.grants.until[key])
	in, entered := p.grants.in[key], len(next.Pods) < len(r.Pods)
	made.due = entered && (in == nil || p.grants.ended || !in.usable(v.now) || in.due(v.now) || stopped)
	if in == nil {
		return next, made
	}
	made.at, made.next, made.pruned = max(made.at, in.last+1), in.first+len(in.spent), in.pruned
	for name, one := range in.of {
		made.due = made.due || entered && one.low()
		made.of[name], made.demand[name] = plannedGrant{total: maps.Clone(one.total)}, one.demand.copy()
	}
	if !a.enter(&next, in.spent, p.revoked) {
		return r, nil
	}
	return next, made
}

// overdue returns those pods admitted against grants that the record cannot hold and that would have appeared by now.
func (p *pending) overdue(v view, made *grantPlan) (all []reservation) {
	p.grants.mu.Lock()
	defer p.grants.mu.Unlock()
	in := p.grants.in[keyOf(v.top.Quota)]
	if made != nil || in == nil {
		return nil
	}
	for _, one := range in.spent {
		if one.expired(v.now, p.options.Expiry) && !p.revoked.has(&one) {
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
