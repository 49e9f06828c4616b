package ledger

import (
	"context"
	"slices"
	"time"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// spend admits a new pod against a grant, and reports whether it could.
func (g *grants) spend(ctx context.Context, p *placement) bool {
	if p.before != nil || ctx.Err() != nil {
		return false
	}
	top, now := p.path[len(p.path)-1], g.options.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.in[keyOf(top)]
	if in == nil || g.ended || !in.usable(now) || len(in.spent) >= maxSpent {
		return false
	}
	one := in.of[p.verdict.Binding.Name]
	if one == nil || !slices.EqualFunc(one.path, p.path, sameForPods) || !g.inForce(in, p) {
		return false
	}
	room := limited(p, func(q *quota.Quota) *quota.Quota { return q })
	if !one.spend(room) {
		return false // the write for the pod itself renews the grants
	}
	in.spent = append(in.spent, reservation{UID: p.pod.UID, Pod: podKey(p.pod), Quota: p.verdict.Binding.Name, Own: p.own(), Request: room,
		At: now.UnixMilli(), By: g.options.Replica})
	one.demand.add(now, room)
	g.counts.decided.Add(1)
	g.counts.granted.Add(1)
	if one.low() || in.due(now) {
		g.queues.renewSoon(top.Name)
	}
	return true
}

// maxSpent bounds the pods that the record does not name.
const maxSpent = maxBatch

// usable reports whether the grants may be spent now. The monotonic clock stands still while a machine is suspended, and
// the other one may be set.
func (g *granted) usable(now time.Time) bool {
	age := now.Round(0).Sub(g.begun.Round(0))
	return !g.begun.IsZero() && now.Sub(g.begun) < grantUse && age >= 0 && age < grantUse
}

// due reports whether the grants are to be renewed: their time is half over, or many pods are to be entered.
func (g *granted) due(now time.Time) bool {
	return now.Sub(g.begun) >= grantUse/2 || len(g.spent) >= maxSpent/2
}

// inForce reports whether the newest known version of the record still has the grant of a pod's quota, and nothing there
// stops it.
func (g *grants) inForce(in *granted, p *placement) bool {
	top := p.path[len(p.path)-1]
	object, known := g.objects.get(keyOf(top))
	if !known {
		return false
	}
	if in.check.version != object.Version {
		found, err := g.objects.record(object)
		if err != nil {
			return false
		}
		in.check = grantCheck{version: object.Version, record: found, top: object.Quota, held: map[string]bool{}}
		for i := range found.Pods {
			if r := &found.Pods[i]; r.Grant && r.By == g.options.Replica && (r.At == in.at || r.At == in.new) {
				in.check.held[r.Quota] = true
			}
		}
	}
	return in.check.held[p.verdict.Binding.Name] && !in.check.record.stops(p.path) && sameForPods(in.check.top, top) &&
		!older(g.objects.reached(), in.check.record.Tree)
}

// stops reports whether no grant in a quota may be spent: a replica needs the room, or a change of its path is announced.
func (r *record) stops(path []*quota.Quota) bool {
	return r.Recall != "" || slices.ContainsFunc(r.Changes, func(c change) bool { return touches(path, c.In) })
}

// spend adds an amount to the total, and reports whether the limit allows that.
func (g *grant) spend(amount api.ResourceList) bool {
	next := sum{}
	for name, q := range amount {
		next[name] = g.total[name]
		next.plus(name, q)
		limit, ok := g.limit[name]
		if all := next[name]; !ok || all.Cmp(limit) > 0 {
			return false
		}
	}
	for name, q := range next {
		g.total[name] = q
	}
	return true
}

// low reports whether less than a quarter of the grant is left.
func (g *grant) low() bool {
	for name, limit := range g.limit {
		left := limit.DeepCopy()
		left.Sub(g.total[name])
		left.Mul(4)
		if left.Cmp(g.room[name]) < 0 {
			return true
		}
	}
	return false
}
