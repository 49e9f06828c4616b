package ledger

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/colocation/quota"
)

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
