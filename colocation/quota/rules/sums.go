package rules

import (
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/quantity"
)

// checkSum keeps the min of a parent's children together within its own (T7). All siblings count, also those that were exempt from the
// check themselves: the scheduler gives them their min too. A resource whose min does not grow is not looked at, so that a sum which is too
// large can be mended child by child.
func (j *judge) checkSum(parent *quota.Quota) {
	if j.exempt() {
		return
	}
	sum := quota.SumOfMin(append(j.children(parent.Name), j.new))
	told := set(j.unnamed(parent))
	for _, name := range quantity.Names(j.new.Min) {
		grows := j.moved() || j.unexempted() || quantity.Exceeds(j.new.Min, j.old.Min, name)
		if grows && quantity.Exceeds(sum, parent.Min, name) && !told[name] {
			j.refuse(minPath.Key(string(name)), quantity.AmountOf(j.new.Min, name), "makes %s with the min of its siblings, more than the %s of its parent %s; lower it, or raise the parent's first",
				quantity.AmountOf(sum, name), quantity.AmountOf(parent.Min, name), parent.Name)
		}
	}
}

// checkChildrenSum is the same from the other side (T8): all children count.
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

// warnOfForce tells of an exemption that comes with a new quota: its label is seldom looked at again.
func (j *judge) warnOfForce() {
	if j.create && j.new.Force {
		j.warn(forcePath, "true exempts this quota from the checks of the sums of min and of guarantees; its min counts in what its siblings and its parent may have")
	}
}
