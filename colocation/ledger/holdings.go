package ledger

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/quota"
)

// holdings are the amounts that count at one moment: the charges of the observed pods, from accounts, and the
// reservations. A pod that is both observed and reserved counts in each quota for the larger of the two, never for
// both, because it is stored once. The same holds for two reservations of one pod name, from a client that retried.
type holdings struct {
	tree     *quota.Tree
	accounts *accounts      // with mu held
	own      []*reservation // from the record of the tree's top, in its order
	byPod    map[string][]*reservation
	reserved map[string]sum // by quota: reserved in the quota and its descendants, beyond what is used
	paths    map[string][]*quota.Quota
	needs    string // the version up to which the pods must be known; see record.Seen
}

// newHoldings counts the reservations of the tree's own record, and misplaced, those found in records of other objects.
func newHoldings(tree *quota.Tree, a *accounts, own, misplaced []*reservation) *holdings {
	h := &holdings{
		tree: tree, accounts: a, own: own, byPod: make(map[string][]*reservation, len(own)),
		reserved: map[string]sum{}, paths: map[string][]*quota.Quota{},
	}
	for _, r := range slices.Concat(own, misplaced) {
		h.byPod[r.Pod] = append(h.byPod[r.Pod], r)
	}
	for key := range h.byPod {
		h.count(key)
	}
	return h
}

// hold adds a reservation to the tree's own.
func (h *holdings) hold(r *reservation) {
	h.uncount(r.Pod)
	h.byPod[r.Pod] = append(h.byPod[r.Pod], r)
	h.own = append(h.own, r)
	h.count(r.Pod)
}

// alike returns the reservation of the tree's own record for a pod of the same name in the same quota, or nil.
func (h *holdings) alike(r *reservation) *reservation {
	for _, other := range h.byPod[r.Pod] {
		if r.alike(other) && slices.Contains(h.own, other) {
			return other
		}
	}
	return nil
}

// release removes one of the tree's own reservations.
func (h *holdings) release(r *reservation) {
	is := func(other *reservation) bool { return other == r }
	h.uncount(r.Pod)
	h.byPod[r.Pod] = slices.DeleteFunc(h.byPod[r.Pod], is)
	h.own = slices.DeleteFunc(h.own, is)
	h.count(r.Pod)
}

// all returns the reservations of the tree's own record after the changes made so far.
func (h *holdings) all() []reservation {
	list := make([]reservation, len(h.own))
	for i, r := range h.own {
		list[i] = *r
	}
	return list
}

// has reports whether a reservation with the same ID is already counted.
func (h *holdings) has(r *reservation) bool {
	return slices.ContainsFunc(h.byPod[r.Pod], func(other *reservation) bool { return r.id() == other.id() })
}

// count adds the reservations of a pod to reserved. Every change of byPod[key] is enclosed by uncount and count, which
// keeps reserved in step.
func (h *holdings) count(key string) {
	for _, q := range h.places(key) {
		sumOf(h.reserved, q.Name).add(h.heldIn(key, q))
	}
}

// uncount subtracts the reservations of a pod from reserved.
func (h *holdings) uncount(key string) {
	for _, q := range h.places(key) {
		sumOf(h.reserved, q.Name).sub(h.heldIn(key, q))
	}
}

// heldIn returns what is reserved for a pod in one of its quotas, beyond what it uses there.
func (h *holdings) heldIn(key string, q *quota.Quota) corev1.ResourceList {
	if list := h.byPod[key]; len(list) == 1 && h.accounts.pods[key] == nil { // the common case: one attempt, not observed yet
		return list[0].request()
	}
	return corev1.ResourceList(h.beyondUsed(key, q))
}

// places returns the quotas in which the reservations of a pod count.
func (h *holdings) places(key string) (all []*quota.Quota) {
	list := h.byPod[key]
	if len(list) == 1 {
		return h.path(list[0].quotaIn(h.tree))
	}
	for _, r := range list {
		for _, q := range h.path(r.quotaIn(h.tree)) {
			if !slices.Contains(all, q) {
				all = append(all, q)
			}
		}
	}
	return all
}

// beyondUsed returns what is reserved for a pod in a quota beyond what it uses there.
func (h *holdings) beyondUsed(key string, q *quota.Quota) sum {
	most := sum{}
	for _, r := range h.byPod[key] {
		if slices.Contains(h.path(r.quotaIn(h.tree)), q) {
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

// seen returns what an observed pod is charged for in a quota.
func (h *holdings) seen(key string, q *quota.Quota) corev1.ResourceList {
	one := h.accounts.pods[key]
	if one == nil || len(one.charge) == 0 || !slices.Contains(h.path(h.tree.Bind(one.pod.BindingKey(), h.accounts.labelOnly).Name), q) {
		return nil
	}
	return one.charge
}

// path caches Tree.Path.
func (h *holdings) path(name string) []*quota.Quota {
	path, known := h.paths[name]
	if !known {
		path = h.tree.Path(name)
		h.paths[name] = path
	}
	return path
}

// excess returns the limits that the pod would exceed, on top of all other pods. latest returns the newest known state
// of a quota.
func (h *holdings) excess(p *placement, latest func(*quota.Quota) *quota.Quota) (found []quota.Excess) {
	key := podKey(p.pod)
	names := slices.Sorted(maps.Keys(p.charge))
	for _, q := range p.path {
		used, reserved := h.others(key, q)
		apart := h.othersApart(key, q)
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
					Requested: want, Used: used[name], Reserved: reserved[name], Limit: limit, Source: source,
					RequestedAsked: without(want, h.accounts.apartOf(p.pod, p.charge)[name]), UsedAsked: without(used[name], apart[name])})
			}
		}
	}
	return found
}

// others returns what all other pods use and have reserved in a quota.
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

// othersApart returns the part of what all other pods use in a quota that their specs do not request.
func (h *holdings) othersApart(key string, q *quota.Quota) sum {
	apart := maps.Clone(h.accounts.apart[q.Name])
	if one := h.accounts.pods[key]; len(apart) > 0 && h.seen(key, q) != nil {
		apart.sub(corev1.ResourceList(h.accounts.apartOf(one.pod, one.charge)))
	}
	return apart
}

// without returns an amount without a part of it; nil if the part is nothing.
func without(amount, part quota.Amount) *quota.Amount {
	if part.IsZero() {
		return nil
	}
	rest := sum{"": amount}
	rest.minus("", part)
	left := rest[""]
	return &left
}
