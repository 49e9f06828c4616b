package rules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// checkGuarantee requires that the tree guarantees the min of a quota: by what is guaranteed to the quota itself, or to
// an ancestor with enough left. Koordinator treats the quotas directly below the root quota specially: a leaf there is
// never checked, and a parent never passes. Here both are the top of their tree, above which nothing can guarantee
// anything, and pass.
func (j *judge) checkGuarantee(parent *quota.Quota) {
	if !j.GuaranteeUsage || j.exempt() || j.new.TreeID == "" {
		return
	}
	grows := slices.ContainsFunc(quantity.Names(j.new.Min), func(name corev1.ResourceName) bool { return quantity.Exceeds(j.new.Min, j.old.Min, name) })
	if !j.moved() && !j.unexempted() && !grows {
		return
	}
	if lacking := quantity.Exceeding(j.new.Min, j.new.Guaranteed); len(lacking) > 0 {
		j.climb(parent)
	}
}

// climb looks for an ancestor whose guarantee covers what the quota needs on top of the other quotas below that
// ancestor.
func (j *judge) climb(parent *quota.Quota) {
	below, need := j.new, quantity.Larger(j.new.Min, j.new.Guaranteed)
	for seen := map[*quota.Quota]bool{}; !seen[parent]; {
		seen[parent] = true
		total := corev1.ResourceList{}
		quantity.AddTo(total, need)
		for _, other := range j.children(parent.Name) {
			if other.Name != below.Name {
				quantity.AddTo(total, other.Guaranteed)
			}
		}
		need = quantity.Larger(parent.Min, total)
		lacking := quantity.Exceeding(need, parent.Guaranteed)
		if len(lacking) == 0 {
			return
		}
		above, ok := j.tree.Get(parent.Parent)
		if !ok || above.Name == api.RootQuota {
			j.refuse(minPath, firstResources(j.new.Min), "the tree cannot guarantee it: its top %s would have to guarantee %s %s, but guarantees %s; "+
				"lower it, or wait until the scheduler guarantees more",
				parent.Name, quantity.AmountOf(need, lacking[0]), lacking[0], quantity.AmountOf(parent.Guaranteed, lacking[0]))
			return
		}
		below, parent = parent, above
	}
}
