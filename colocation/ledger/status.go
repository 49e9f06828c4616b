package ledger

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// QuotaStatus is the status of a quota that its owners may read.
type QuotaStatus struct {
	Quota  types.NamespacedName
	UID    types.UID
	Status api.ElasticQuotaStatus
	// Behind is set if other replicas have observed more pods: they are not reserved any more, and not used yet.
	Behind bool
}

// Statuses returns the status of each quota, sorted by name, except the reserved ones, which limit nothing. It fails like
// Report, and until the pods are known: nothing would seem to be used.
func (l *Ledger) Statuses() (all []QuotaStatus, _ error) {
	tree, err := l.tree()
	if err != nil {
		return nil, err
	}
	names, now, below := tree.Names(), totals{map[string]sum{}, map[string]sum{}, map[string]bool{}}, map[*quota.Quota][]string{}
	for _, name := range names {
		if path := tree.Path(name); len(path) > 0 && !api.ReservedQuota(name) {
			below[path[len(path)-1]] = append(below[path[len(path)-1]], name)
		}
	}
	for top, names := range below {
		l.withHoldings(tree, top, func(h *holdings) { err = now.copy(h, names) })
		if err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if path := tree.Line(name); len(path) > 0 && !api.ReservedQuota(name) {
			all = append(all, QuotaStatus{path[0].Identity(), path[0].UID, now.status(path), now.behind[name]})
		}
	}
	return all, nil
}

// totals are copies of what is used and reserved, by quota, and the quotas for which this replica is behind.
type totals struct {
	used, reserved map[string]sum
	behind         map[string]bool
}

// copy copies what holdings count in quotas. That is quick: no pod is decided on meanwhile.
func (t totals) copy(h *holdings, names []string) error {
	if !h.accounts.listed {
		return errBehind
	}
	behind := h.accounts.upTo(h.needs) != nil
	for _, name := range names {
		t.behind[name] = behind
		t.used[name] = maps.Clone(h.accounts.used[name])
	}
	maps.Copy(t.reserved, h.reserved) // made for these holdings
	return nil
}

// status returns the status of the first quota of a path. What is used of its limited resources is there even if it is zero.
func (t totals) status(path []*quota.Quota) api.ElasticQuotaStatus {
	q := path[0]
	s := api.ElasticQuotaStatus{Used: nonzero(t.used[q.Name]), Reserved: nonzero(t.reserved[q.Name]), Limit: api.ResourceList{},
		Binds: map[corev1.ResourceName]string{}}
	for name := range limitedBy(q) {
		s.Limit[name], _, _ = q.Limit(name)
		s.Used[name] = t.used[q.Name][name]
	}
	for _, above := range path {
		for name := range limitedBy(above) {
			if _, done := s.Binds[name]; !done {
				s.Binds[name] = t.binding(path, name)
			}
		}
	}
	return s
}

func nonzero(s sum) api.ResourceList {
	list := api.ResourceList{}
	for name, amount := range s {
		if !amount.IsZero() {
			list[name] = amount
		}
	}
	return list
}

// limitedBy returns the set of the resources that a quota limits.
func limitedBy(q *quota.Quota) map[corev1.ResourceName]bool {
	names := make(map[corev1.ResourceName]bool, len(q.Max))
	for _, list := range []corev1.ResourceList{q.Max, q.Admission} {
		for name := range list {
			names[name] = true
		}
	}
	return names
}

// binding returns the name of the quota on a path that has the least left of a resource; of several the lowest.
func (t totals) binding(path []*quota.Quota, name corev1.ResourceName) (binds string) {
	var least quota.Amount
	for _, q := range path {
		limit, _, limited := q.Limit(name)
		if !limited {
			continue
		}
		left := limit.DeepCopy()
		left.Sub(t.used[q.Name][name])
		left.Sub(t.reserved[q.Name][name])
		if binds == "" || left.Cmp(least) < 0 {
			binds, least = q.Name, left
		}
	}
	return binds
}
