package ledger

import (
	"maps"
	"slices"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// grantPlan describes the grants of this replica in the next record.
type grantPlan struct {
	replica string
	at      int64 // identifies them
	next    int   // the number of the first admitted pod that the record does not name
	pruned  int
	of      map[string]plannedGrant // by quota
	ended   bool
	due     bool // the record is to be written for them alone
	demand  map[string]demand
	held    []*reservation // for new pods of this plan

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

// take adds new grants to the plan, in the quotas where this replica has admitted several pods lately.
func (p *grantPlan) take(v view, counted *holdings, stopped func(path []*quota.Quota) bool, spent *budget) {
	for _, held := range p.held {
		d := p.demand[held.Quota]
		d.add(v.now, held.Request)
		p.demand[held.Quota] = d
	}
	for _, name := range slices.Sorted(maps.Keys(p.demand)) {
		d, one := p.demand[name], p.of[name]
		d.rotate(v.now)
		one.path = counted.path(name)
		if n := len(one.path); n > 0 && one.path[n-1].Name == v.top.Quota.Name && !stopped(one.path) && !p.ended {
			one.room = counted.share(one.path, d, v.latest)
		}
		if one.room != nil {
			if r := p.entry(v, name, one.room); r.encode() == nil && spent.add(v.top.Quota.Namespace, len(r.json)+1) {
				counted.hold(r)
			} else {
				one.room = nil
			}
		}
		p.of[name] = one
	}
}

// entry returns a grant as the record holds it. No pod can have its name.
func (p *grantPlan) entry(v view, name string, room sum) *reservation {
	return &reservation{Grant: true, Pod: v.top.Quota.Namespace + "/_" + p.replica + "_" + v.top.Quota.Name + "_" + name,
		Quota: name, Request: api.ResourceList(room), At: p.at, By: p.replica}
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
