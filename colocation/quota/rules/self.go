package rules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/quantity"
)

// checkSelf checks a quota on its own.
func (j *judge) checkSelf() {
	j.checkAmounts(maxPath, j.old.Max, j.new.Max)
	j.checkAmounts(minPath, j.old.Min, j.new.Min)
	j.checkAmounts(weightPath, j.old.SharedWeight, j.new.SharedWeight)
	j.checkAmounts(admissionPath, j.old.Admission, j.new.Admission)
	j.checkRange()
	j.checkUsed()
}

// checkAmounts refuses negative amounts, and names that no resource can have.
func (j *judge) checkAmounts(at *field.Path, old, new corev1.ResourceList) {
	for _, name := range quantity.Names(new) {
		if _, before := old[name]; !before {
			for _, rule := range validation.IsQualifiedName(string(name)) {
				j.refuse(at, name, "is not the name of a resource: %s", rule)
			}
		}
		if amount := new[name]; amount.Sign() < 0 && !quantity.SameAmount(old, new, name) {
			j.refuse(at.Key(string(name)), amount.String(), "must not be negative")
		}
	}
}

// checkRange requires that each resource of min is in max, and not above it.
func (j *judge) checkRange() {
	for _, name := range quantity.Names(j.new.Min) {
		if quantity.SameAmount(j.old.Min, j.new.Min, name) && quantity.SameAmount(j.old.Max, j.new.Max, name) {
			continue
		}
		at, amount := minPath.Key(string(name)), quantity.AmountOf(j.new.Min, name)
		if _, ok := j.new.Max[name]; !ok {
			j.refuse(at, amount, "spec.max does not name %s: what is guaranteed needs a limit; add it there", name)
		} else if quantity.Exceeds(j.new.Min, j.new.Max, name) {
			j.refuse(at, amount, "is more than spec.max, which is %s", quantity.AmountOf(j.new.Max, name))
		}
	}
}

// checkUsed keeps max from falling below what is used, for the resources that the annotation names. It checks only
// those whose max falls or which the annotation newly names: usage may already exceed the existing max.
func (j *judge) checkUsed() {
	strict, named := sets.New(j.old.StrictKeys...), firstResources(j.new.Max)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(j.new.StrictKeys))) {
		used, inUse := j.new.Used[name]
		max, limited := j.new.Max[name]
		before, wasLimited := j.old.Max[name]
		falls := wasLimited && (!limited || max.Cmp(before) < 0)
		if !inUse || strict.Has(name) && !falls {
			continue
		}
		if !limited {
			j.refuse(maxPath, named, "must name %s, of which %s is used: annotation %s asks that max is not below what is used",
				name, used.String(), strictKey)
		} else if max.Cmp(used) < 0 {
			j.refuse(maxPath.Key(string(name)), max.String(), "is less than the %s that are used, which annotation %s forbids", used.String(), strictKey)
		}
	}
}
