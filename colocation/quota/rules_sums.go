package quota

import corev1 "k8s.io/api/core/v1"

// sumOfMin is the min of some quotas together.
func sumOfMin(quotas []*Quota) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, q := range quotas {
		add(sum, q.Min)
	}
	return sum
}

// checkSum keeps the min of a parent's children together within its own (T7). All siblings count, also those that were exempt from the
// check themselves: the scheduler gives them their min too. A resource whose min does not grow is not looked at, so that a sum which is too
// large can be mended child by child.
func (j *judge) checkSum(parent *Quota) {
	if j.exempt() {
		return
	}
	sum := sumOfMin(append(j.children(parent.Name), j.new))
	told := set(j.unnamed(parent))
	for _, name := range resources(j.new.Min) {
		grows := j.moved() || j.unexempted() || over(j.new.Min, j.old.Min, name)
		if grows && over(sum, parent.Min, name) && !told[name] {
			j.refuse(minPath.Key(string(name)), amountOf(j.new.Min, name), "makes %s with the min of its siblings, more than the %s of its parent %s; lower it, or raise the parent's first",
				amountOf(sum, name), amountOf(parent.Min, name), parent.Name)
		}
	}
}

// checkChildrenSum is the same from the other side (T8): all children count.
func (j *judge) checkChildrenSum(children []*Quota) {
	if j.exempt() {
		return
	}
	sum := sumOfMin(children)
	for _, name := range resources(sum) {
		if over(sum, j.new.Min, name) && (j.create || j.unexempted() || over(j.old.Min, j.new.Min, name)) {
			j.refuse(minPath.Key(string(name)), amountOf(j.new.Min, name), "is less than the %s of its children together (%s); lower theirs first",
				amountOf(sum, name), namesOf(children))
		}
	}
}

// warnOfForce tells of an exemption that comes with a new quota: its label is seldom looked at again.
func (j *judge) warnOfForce() {
	if j.create && j.new.Force {
		j.warn(forcePath, "true exempts this quota from the checks of the sums of min and of guarantees; its min counts in what its siblings and its parent may have")
	}
}
