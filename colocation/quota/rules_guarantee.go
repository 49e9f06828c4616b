package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/api"
)

// checkGuarantee asks that the tree guarantees the min of a quota (T9): what is guaranteed to it, else to an ancestor that has room for it.
// For Koordinator the quotas right below the root quota are a special case twice: a leaf there is never checked, and a parent never
// passes. Here both are the top of their tree, above which nothing can guarantee anything, and pass.
func (j *judge) checkGuarantee(parent *Quota) {
	if !j.GuaranteeUsage || j.exempt() || j.new.TreeID == "" {
		return
	}
	grows := slices.ContainsFunc(resources(j.new.Min), func(name corev1.ResourceName) bool { return over(j.new.Min, j.old.Min, name) })
	if !j.moved() && !j.unexempted() && !grows {
		return
	}
	if lacking := exceeding(j.new.Min, j.new.Guaranteed); len(lacking) > 0 {
		j.climb(parent)
	}
}

// climb looks for an ancestor to whom is guaranteed what the quota needs beside the others below that ancestor.
func (j *judge) climb(parent *Quota) {
	below, need := j.new, most(j.new.Min, j.new.Guaranteed)
	for seen := map[*Quota]bool{}; !seen[parent]; {
		seen[parent] = true
		total := corev1.ResourceList{}
		add(total, need)
		for _, other := range j.children(parent.Name) {
			if other.Name != below.Name {
				add(total, other.Guaranteed)
			}
		}
		need = most(parent.Min, total)
		lacking := exceeding(need, parent.Guaranteed)
		if len(lacking) == 0 {
			return
		}
		above, ok := j.tree.Get(parent.Parent)
		if !ok || above.Name == api.RootQuota {
			j.refuse(minPath, firstResources(j.new.Min), "the tree cannot guarantee it: its top %s would have to guarantee %s %s, but guarantees %s; lower it, or wait until the scheduler guarantees more",
				parent.Name, amountOf(need, lacking[0]), lacking[0], amountOf(parent.Guaranteed, lacking[0]))
			return
		}
		below, parent = parent, above
	}
}

// exceeding are the resources of which a list has more than another, sorted.
func exceeding(a, b corev1.ResourceList) []corev1.ResourceName {
	return slices.DeleteFunc(resources(a), func(name corev1.ResourceName) bool { return !over(a, b, name) })
}
