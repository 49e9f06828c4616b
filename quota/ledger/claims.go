package ledger

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/quota"
)

// claims are what pods count for at one moment: those that were seen, by the accounts, and beyond them those for which room is held. A pod
// that is both counts for the larger of the two in each quota, never for both: it is stored once. So do two reservations for one name, of
// a client that tried twice.
type claims struct {
	tree     *quota.Tree
	accounts *accounts      // its mu is held
	own      []*reservation // of the tree's record, in its order
	byPod    map[string][]*reservation
	reserved map[string]sum // of a quota and all below it, beyond what is used
	paths    map[string][]*quota.Quota
}

// newClaims counts the reservations of the tree's own record, and strays: those that stand elsewhere.
func newClaims(tree *quota.Tree, a *accounts, own, strays []*reservation) *claims {
	c := &claims{tree: tree, accounts: a, own: own, byPod: make(map[string][]*reservation, len(own)), reserved: map[string]sum{}, paths: map[string][]*quota.Quota{}}
	for _, r := range slices.Concat(own, strays) {
		c.byPod[r.Pod] = append(c.byPod[r.Pod], r)
	}
	for key := range c.byPod {
		c.count(key)
	}
	return c
}

// hold counts one more reservation.
func (c *claims) hold(r *reservation) {
	c.uncount(r.Pod)
	c.byPod[r.Pod] = append(c.byPod[r.Pod], r)
	c.own = append(c.own, r)
	c.count(r.Pod)
}

// alike is the reservation of the tree's own record for a pod of the same name in the same quota; nil if there is none.
func (c *claims) alike(r *reservation) *reservation {
	for _, other := range c.byPod[r.Pod] {
		if r.alike(other) && slices.Contains(c.own, other) {
			return other
		}
	}
	return nil
}

// release counts one less, of the tree's own.
func (c *claims) release(r *reservation) {
	is := func(other *reservation) bool { return other == r }
	c.uncount(r.Pod)
	c.byPod[r.Pod] = slices.DeleteFunc(c.byPod[r.Pod], is)
	c.own = slices.DeleteFunc(c.own, is)
	c.count(r.Pod)
}

// all are the reservations of the tree's own record, as it becomes.
func (c *claims) all() []reservation {
	list := make([]reservation, len(c.own))
	for i, r := range c.own {
		list[i] = *r
	}
	return list
}

// has tells whether an answer like that counts already.
func (c *claims) has(r *reservation) bool {
	return slices.ContainsFunc(c.byPod[r.Pod], func(other *reservation) bool { return r.answer() == other.answer() })
}

// count adds what is held for a pod to reserved. Who changes byPod of a pod takes that out before and counts it again after.
func (c *claims) count(key string) {
	for _, q := range c.places(key) {
		of := c.reserved[q.Name]
		if of == nil {
			of = sum{}
			c.reserved[q.Name] = of
		}
		of.add(c.heldIn(key, q))
	}
}

// uncount takes it away.
func (c *claims) uncount(key string) {
	for _, q := range c.places(key) {
		if of := c.reserved[q.Name]; of != nil {
			of.sub(c.heldIn(key, q))
		}
	}
}

// heldIn is what is held for a pod in one of its places, beyond what is used by it there.
func (c *claims) heldIn(key string, q *quota.Quota) corev1.ResourceList {
	if list := c.byPod[key]; len(list) == 1 && c.accounts.pods[key] == nil { // most are: one try for a pod that nobody has seen
		return list[0].request()
	}
	return corev1.ResourceList(c.beyond(key, q))
}

// places are the quotas in which room is held for a pod.
func (c *claims) places(key string) (all []*quota.Quota) {
	list := c.byPod[key]
	if len(list) == 1 {
		return c.path(list[0].Quota)
	}
	for _, r := range list {
		for _, q := range c.path(r.Quota) {
			if !slices.Contains(all, q) {
				all = append(all, q)
			}
		}
	}
	return all
}

// beyond is what is held for a pod in a quota beyond what is used by it there.
func (c *claims) beyond(key string, q *quota.Quota) sum {
	most := sum{}
	for _, r := range c.byPod[key] {
		if slices.Contains(c.path(r.Quota), q) {
			most.raise(r.request())
		}
	}
	seen := c.seen(key, q)
	for name, amount := range most {
		if used, ok := seen[name]; ok {
			if amount.Cmp(used) <= 0 {
				delete(most, name)
				continue
			}
			most.minus(name, used)
		}
	}
	return most
}

// seen is what a pod that was seen counts for in a quota.
func (c *claims) seen(key string, q *quota.Quota) corev1.ResourceList {
	one := c.accounts.pods[key]
	if one == nil || len(one.charge) == 0 || !slices.Contains(c.path(c.tree.Bind(one.pod.BindingKey(), c.accounts.labelOnly).Name), q) {
		return nil
	}
	return one.charge
}

// path is Tree.Path, found once.
func (c *claims) path(name string) []*quota.Quota {
	path, known := c.paths[name]
	if !known {
		path = c.tree.Path(name)
		c.paths[name] = path
	}
	return path
}

// excess returns what does not fit of a pod beside all others. newest gives the quota as it is known best.
func (c *claims) excess(p *placement, newest func(*quota.Quota) *quota.Quota) (found []quota.Excess) {
	key := podKey(p.pod)
	names := slices.Sorted(maps.Keys(p.charge))
	for _, q := range p.path {
		used, reserved := c.others(key, q)
		for _, name := range names {
			limit, source, judged := p.judged(newest(q), name)
			if !judged {
				continue
			}
			want := p.charge[name]
			total := sum{name: want}
			total.plus(name, used[name])
			total.plus(name, reserved[name])
			if all := total[name]; all.Cmp(limit) > 0 {
				found = append(found, quota.Excess{Quota: q.Name, Resource: name,
					Requested: want, Used: used[name], Reserved: reserved[name], Limit: limit, Source: source})
			}
		}
	}
	return found
}

// others are what is used and reserved in a quota by all pods but one.
func (c *claims) others(key string, q *quota.Quota) (used, reserved sum) {
	used, reserved = maps.Clone(c.accounts.used[q.Name]), maps.Clone(c.reserved[q.Name])
	if used == nil {
		used = sum{}
	}
	if reserved == nil {
		reserved = sum{}
	}
	used.sub(c.seen(key, q))
	reserved.sub(corev1.ResourceList(c.beyond(key, q)))
	return used, reserved
}
