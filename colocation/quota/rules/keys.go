package rules

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// checkKeys requires that a quota names the same resources as its parent.
func (j *judge) checkKeys(parent *quota.Quota) {
	if (j.moved() || !quantity.SameNames(j.old.Max, j.new.Max)) && !j.fit(j.new.Max, parent.Max) {
		j.refuse(maxPath, firstResources(j.new.Max), "its parent %s names %s: %s", parent.Name, names(parent.Max), j.keyRule())
	}
	for _, name := range j.unnamed(parent) {
		j.refuse(minPath.Key(string(name)), quantity.AmountOf(j.new.Min, name),
			"the min of its parent %s does not name %s; add it there first", parent.Name, name)
	}
}

// unnamed returns the resources that the change adds to the min and that the min of the parent does not name.
func (j *judge) unnamed(parent *quota.Quota) []corev1.ResourceName {
	return slices.DeleteFunc(quantity.Missing(j.new.Min, parent.Min), func(name corev1.ResourceName) bool {
		_, before := j.old.Min[name]
		return before && !j.moved()
	})
}

// checkChildrenKeys is checkKeys as seen from the parent.
func (j *judge) checkChildrenKeys(children []*quota.Quota) {
	other := slices.IndexFunc(children, func(child *quota.Quota) bool { return !j.fit(child.Max, j.new.Max) })
	if other >= 0 && (j.create || !quantity.SameNames(j.old.Max, j.new.Max)) {
		j.refuse(maxPath, firstResources(j.new.Max), "its child %s names %s: %s", children[other].Name, names(children[other].Max), j.keyRule())
	}
	for _, child := range children {
		gone := slices.DeleteFunc(quantity.Missing(child.Min, j.new.Min), func(name corev1.ResourceName) bool {
			_, before := j.old.Min[name]
			return !j.create && !before
		})
		if len(gone) > 0 {
			j.refuse(minPath, firstResources(j.new.Min), "must name %s, as the min of its child %s does", admit.SomeNames(gone), child.Name)
			return
		}
	}
}

// fit reports whether the max of a child names resources that its parent allows.
func (j *judge) fit(child, parent corev1.ResourceList) bool {
	if j.UpdateResourceKey {
		return len(quantity.Missing(child, parent)) == 0
	}
	return quantity.SameNames(child, parent)
}

func (j *judge) keyRule() string {
	if j.UpdateResourceKey {
		return "a child may name only what its parent names"
	}
	return "parent and child must name the same resources (or, with feature gate ElasticQuotaEnableUpdateResourceKey, the child only some of them)"
}

// warnOfMax warns of a max above the parent's: it can never be used.
func (j *judge) warnOfMax(parent *quota.Quota) {
	for _, name := range quantity.Names(j.new.Max) {
		_, limited := parent.Max[name]
		changed := j.moved() || !quantity.SameAmount(j.old.Max, j.new.Max, name)
		if limited && changed && quantity.Exceeds(j.new.Max, parent.Max, name) {
			j.warn(maxPath.Key(string(name)), "%s is more than the %s of its parent %s, which limits it",
				quantity.AmountOf(j.new.Max, name), quantity.AmountOf(parent.Max, name), parent.Name)
		}
	}
}

// warnOfChildrenMax is warnOfMax as seen from the parent.
func (j *judge) warnOfChildrenMax(children []*quota.Quota) {
	if j.create {
		return
	}
	above := map[corev1.ResourceName][]*quota.Quota{}
	for _, child := range children { // over the resources of each child: children times all resources would take long
		for name := range child.Max {
			if _, limited := j.new.Max[name]; limited && quantity.Exceeds(child.Max, j.new.Max, name) {
				above[name] = append(above[name], child)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(above)) {
		if !quantity.SameAmount(j.old.Max, j.new.Max, name) {
			j.warn(maxPath.Key(string(name)),
				"%s is less than that of its children (%s), and limits them", quantity.AmountOf(j.new.Max, name), namesOf(above[name]))
		}
	}
}

const strictKey = api.AnnotationQuotaMaxStrictCheck
