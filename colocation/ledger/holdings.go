package ledger

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/quota"
)

// holdings are what pods count for at one moment: those that were seen, by the accounts, and beyond them those for which room is held. A pod
// that is both counts for the larger of the two in each quota, never for both: it is stored once. So do two reservations for one name, of
// a client that tried twice.
type holdings struct {
	tree     *quota.Tree
	accounts *accounts      // its mu is held
	own      []*reservation // of the tree's record, in its order
	byPod    map[string][]*reservation
	reserved map[string]sum // of a quota and all below it, beyond what is used
	paths    map[string][]*quota.Quota
}

// newHoldings counts the reservations of the tree's own record, and misplaced: those that stand elsewhere.
func newHoldings(tree *quota.Tree, a *accounts, own, misplaced []*reservation) *holdings {
	h := &holdings{tree: tree, accounts: a, own: own, byPod: make(map[string][]*reservation, len(own)), reserved: map[string]sum{}, paths: map[string][]*quota.Quota{}}
	for _, r := range slices.Concat(own, misplaced) {
		h.byPod[r.Pod] = append(h.byPod[r.Pod], r)
	}
	for key := range h.byPod {
		h.count(key)
	}
	return h
}

// hold counts one more reservation.
func (h *holdings) hold(r *reservation) {
	h.uncount(r.Pod)
	h.byPod[r.Pod] = append(h.byPod[r.Pod], r)
	h.own = append(h.own, r)
	h.count(r.Pod)
}

// alike is the reservation of the tree's own record for a pod of the same name in the same quota; nil if there is none.
func (h *holdings) alike(r *reservation) *reservation {
	for _, other := range h.byPod[r.Pod] {
		if r.alike(other) && slices.Contains(h.own, other) {
			return other
		}
	}
	return nil
}

// release counts one less, of the tree's own.
func (h *holdings) release(r *reservation) {
	is := func(other *reservation) bool { return other == r }
	h.uncount(r.Pod)
	h.byPod[r.Pod] = slices.DeleteFunc(h.byPod[r.Pod], is)
	h.own = slices.DeleteFunc(h.own, is)
	h.count(r.Pod)
}

// all are the reservations of the tree's own record, as it becomes.
func (h *holdings) all() []reservation {
	list := make([]reservation, len(h.own))
	for i, r := range h.own {
		list[i] = *r
	}
	return list
}

// has reports whether an answer like that counts already.
func (h *holdings) has(r *reservation) bool {
	return slices.ContainsFunc(h.byPod[r.Pod], func(other *reservation) bool { return r.id() == other.id() })
}

// count adds to reserved what is held for a pod. Every change of byPod[key] stands between uncount and count, so that reserved stays in step.
func (h *holdings) count(key string) {
	for _, q := range h.places(key) {
		of := h.reserved[q.Name]
		if of == nil {
			of = sum{}
			h.reserved[q.Name] = of
		}
		of.add(h.heldIn(key, q))
	}
}

// uncount takes from reserved what is held for a pod.
func (h *holdings) uncount(key string) {
	for _, q := range h.places(key) {
		if of := h.reserved[q.Name]; of != nil {
			of.sub(h.heldIn(key, q))
		}
	}
}

// heldIn is what is held for a pod in one of its places, beyond what is used by it there.
func (h *holdings) heldIn(key string, q *quota.Quota) corev1.ResourceList {
	if list := h.byPod[key]; len(list) == 1 && h.accounts.pods[key] == nil { // most are: one try for a pod that nobody has seen
		return list[0].request()
	}
	return corev1.ResourceList(h.beyondUsed(key, q))
}

// places are the quotas in which room is held for a pod.
func (h *holdings) places(key string) (all []*quota.Quota) {
	list := h.byPod[key]
	if len(list) == 1 {
		return h.path(list[0].Quota)
	}
	for _, r := range list {
		for _, q := range h.path(r.Quota) {
			if !slices.Contains(all, q) {
				all = append(all, q)
			}
		}
	}
	return all
}

// beyondUsed is what is held for a pod in a quota beyondUsed what is used by it there.
func (h *holdings) beyondUsed(key string, q *quota.Quota) sum {
	most := sum{}
	for _, r := range h.byPod[key] {
		if slices.Contains(h.path(r.Quota), q) {
			most.raise(r.request())
		}
	}
	seen := h.seen(key, q)
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
func (h *holdings) seen(key string, q *quota.Quota) corev1.ResourceList {
	one := h.accounts.pods[key]
	if one == nil || len(one.charge) == 0 || !slices.Contains(h.path(h.tree.Bind(one.pod.BindingKey(), h.accounts.labelOnly).Name), q) {
		return nil
	}
	return one.charge
}

// path is Tree.Path, found once.
func (h *holdings) path(name string) []*quota.Quota {
	path, known := h.paths[name]
	if !known {
		path = h.tree.Path(name)
		h.paths[name] = path
	}
	return path
}

// excess returns what does not fit of a pod beside all others. newest gives the quota as it is known best.
func (h *holdings) excess(p *placement, latest func(*quota.Quota) *quota.Quota) (found []quota.Excess) {
	key := podKey(p.pod)
	names := slices.Sorted(maps.Keys(p.charge))
	for _, q := range p.path {
		used, reserved := h.others(key, q)
		for _, name := range names {
			limit, source, judged := p.judged(latest(q), name)
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
func (h *holdings) others(key string, q *quota.Quota) (used, reserved sum) {
	used, reserved = maps.Clone(h.accounts.used[q.Name]), maps.Clone(h.reserved[q.Name])
	if used == nil {
		used = sum{}
	}
	if reserved == nil {
		reserved = sum{}
	}
	used.sub(h.seen(key, q))
	reserved.sub(corev1.ResourceList(h.beyondUsed(key, q)))
	return used, reserved
}
