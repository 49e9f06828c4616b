package rules

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/quota"
)

// checkSum keeps the sum of the min of a parent's children within the parent's own. All siblings count, also those that
// are exempt from the check themselves: the scheduler gives them their min too. A resource whose min does not grow is
// not checked, so that an excessive sum can be repaired child by child.
func (j *judge) checkSum(parent *quota.Quota) {
	if j.exempt() {
		return
	}
	sum := quota.SumOfMin(append(j.children(parent.Name), j.new))
	told := sets.New(j.unnamed(parent)...)
	for _, name := range quantity.Names(j.new.Min) {
		grows := j.moved() || j.unexempted() || quantity.Exceeds(j.new.Min, j.old.Min, name)
		if grows && quantity.Exceeds(sum, parent.Min, name) && !told.Has(name) {
			j.refuse(minPath.Key(string(name)), quantity.AmountOf(j.new.Min, name),
				"makes %s with the min of its siblings, more than the %s of its parent %s; lower it, or raise the parent's first",
				quantity.AmountOf(sum, name), quantity.AmountOf(parent.Min, name), parent.Name)
		}
	}
}

// checkChildrenSum is checkSum as seen from the parent: all children count.
func (j *judge) checkChildrenSum(children []*quota.Quota) {
	if j.exempt() {
		return
	}
	sum := quota.SumOfMin(children)
	for _, name := range quantity.Names(sum) {
		if quantity.Exceeds(sum, j.new.Min, name) && (j.create || j.unexempted() || quantity.Exceeds(j.old.Min, j.new.Min, name)) {
			j.refuse(minPath.Key(string(name)), quantity.AmountOf(j.new.Min, name), "is less than the %s of its children together (%s); lower theirs first",
				quantity.AmountOf(sum, name), namesOf(children))
		}
	}
}

// warnOfForce warns of an exemption on a new quota: the label is easily forgotten.
func (j *judge) warnOfForce() {
	if j.create && j.new.Force {
		j.warn(forcePath, "true exempts this quota from the checks of the sums of min and of guarantees; its min counts in what its siblings and "+
			"its parent may have")
	}
}
