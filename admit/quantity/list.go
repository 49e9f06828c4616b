package quantity

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Names returns the resource names of all lists, sorted and without duplicates.
func Names(lists ...corev1.ResourceList) []corev1.ResourceName {
	all := map[corev1.ResourceName]bool{}
	for _, list := range lists {
		for name := range list {
			all[name] = true
		}
	}
	names := slices.AppendSeq(make([]corev1.ResourceName, 0, len(all)), maps.Keys(all))
	slices.Sort(names)
	return names
}

// Missing returns the names that from has and in does not, sorted.
func Missing(from, in corev1.ResourceList) (names []corev1.ResourceName) {
	for _, name := range Names(from) {
		if _, ok := in[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// SameNames reports whether two lists have the same resources.
func SameNames(a, b corev1.ResourceList) bool {
	return len(a) == len(b) && len(Missing(a, b)) == 0
}

// SameAmount reports whether a resource has equal amounts in two lists, however they are written, or is missing in
// both.
func SameAmount(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x, inA := a[name]
	y, inB := b[name]
	return inA == inB && x.Cmp(y) == 0
}

// SameList reports whether two lists have the same resources with equal amounts.
func SameList(a, b corev1.ResourceList) bool {
	return SameNames(a, b) && !slices.ContainsFunc(Names(a), func(name corev1.ResourceName) bool { return !SameAmount(a, b, name) })
}

// Exceeds reports whether a has more of a resource than b. A missing resource counts as zero.
func Exceeds(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x := a[name]
	return x.Cmp(b[name]) > 0
}

// Exceeding returns the resources of which a has more than b, sorted.
func Exceeding(a, b corev1.ResourceList) []corev1.ResourceName {
	return slices.DeleteFunc(Names(a), func(name corev1.ResourceName) bool { return !Exceeds(a, b, name) })
}

// Covers reports whether list has at least the amounts of other. A missing resource counts as zero.
func Covers(list, other corev1.ResourceList) bool {
	for name, amount := range other {
		if amount.Cmp(list[name]) > 0 {
			return false
		}
	}
	return true
}

// EqualAmounts reports whether two lists have equal amounts. A missing resource counts as zero.
func EqualAmounts(a, b corev1.ResourceList) bool { return Covers(a, b) && Covers(b, a) }

// AddTo adds a list to sum, which must not be nil.
func AddTo(sum, list corev1.ResourceList) {
	for name, amount := range list {
		total := sum[name].DeepCopy()
		total.Add(amount)
		sum[name] = total
	}
}

// Larger returns the larger amount of each resource.
func Larger(a, b corev1.ResourceList) corev1.ResourceList {
	result := maps.Clone(a)
	if result == nil {
		result = corev1.ResourceList{}
	}
	for name, amount := range b {
		if now, ok := result[name]; !ok || amount.Cmp(now) > 0 {
			result[name] = amount
		}
	}
	return result
}

// AmountOf returns the amount of a resource as text; "0" if it is missing.
func AmountOf(list corev1.ResourceList, name corev1.ResourceName) string {
	amount := list[name]
	return amount.String()
}
