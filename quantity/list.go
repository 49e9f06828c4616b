package quantity

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Names are the names in some lists, sorted.
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

// Missing are the names in a list that another does not have, sorted.
func Missing(from, in corev1.ResourceList) (names []corev1.ResourceName) {
	for _, name := range Names(from) {
		if _, ok := in[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// SameNames reports whether two lists name the same resources.
func SameNames(a, b corev1.ResourceList) bool {
	return len(a) == len(b) && len(Missing(a, b)) == 0
}

// SameAmount reports whether a resource has the same amount in two lists, however that is written, or is missing in both.
func SameAmount(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x, inA := a[name]
	y, inB := b[name]
	return inA == inB && x.Cmp(y) == 0
}

// SameList reports whether two lists say the same.
func SameList(a, b corev1.ResourceList) bool {
	return SameNames(a, b) && !slices.ContainsFunc(Names(a), func(name corev1.ResourceName) bool { return !SameAmount(a, b, name) })
}

// Exceeds reports whether there is more of a resource in a than in b, where what is missing is zero.
func Exceeds(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x := a[name]
	return x.Cmp(b[name]) > 0
}

// Exceeding are the resources of which a list has more than another, sorted.
func Exceeding(a, b corev1.ResourceList) []corev1.ResourceName {
	return slices.DeleteFunc(Names(a), func(name corev1.ResourceName) bool { return !Exceeds(a, b, name) })
}

// AddTo adds a list to a sum, which is not nil.
func AddTo(sum, list corev1.ResourceList) {
	for name, amount := range list {
		total := sum[name].DeepCopy()
		total.Add(amount)
		sum[name] = total
	}
}

// Larger is the greater amount of each resource.
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

// AmountOf is an amount for people; what is missing is 0.
func AmountOf(list corev1.ResourceList, name corev1.ResourceName) string {
	amount := list[name]
	return amount.String()
}
