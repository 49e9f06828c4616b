package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// checkSum keeps the min of a parent's children together within its own (T7). A resource whose min does not grow is not looked at, so
// that a sum which is too large can be mended child by child.
func (j *judge) checkSum(parent *Quota) {
	if j.exempt() {
		return
	}
	sum := corev1.ResourceList{}
	add(sum, j.new.Min)
	for _, sibling := range j.children(parent.Name) {
		add(sum, sibling.Min)
	}
	told := j.unnamed(parent)
	for _, name := range resources(j.new.Min) {
		grows := j.moved() || j.unexempted() || over(j.new.Min, j.old.Min, name)
		if grows && over(sum, parent.Min, name) && !slices.Contains(told, name) {
			j.refuse(minPath.Key(string(name)), amountOf(j.new.Min, name), "makes %s with the min of its siblings, more than the %s of its parent %s; lower it, or raise the parent's first",
				amountOf(sum, name), amountOf(parent.Min, name), parent.Name)
		}
	}
}

// checkChildrenSum is the same from the other side (T8).
func (j *judge) checkChildrenSum(children []*Quota) {
	if j.exempt() {
		return
	}
	sum := corev1.ResourceList{}
	for _, child := range children {
		add(sum, child.Min)
	}
	for _, name := range resources(sum) {
		if over(sum, j.new.Min, name) && (j.create || j.unexempted() || over(j.old.Min, j.new.Min, name)) {
			j.refuse(minPath.Key(string(name)), amountOf(j.new.Min, name), "is less than the %s of its children together (%s); lower theirs first",
				amountOf(sum, name), namesOf(children))
		}
	}
}
