package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// resources are the names in some lists, sorted.
func resources(lists ...corev1.ResourceList) []corev1.ResourceName {
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

// firstResources are the names in a list as the value of a problem: no more than anybody reads.
func firstResources(list corev1.ResourceList) []corev1.ResourceName {
	names := resources(list)
	if len(names) > maxProblems {
		names = append(names[:maxProblems], "...")
	}
	return names
}

// set is a list to look things up in, which may be long.
func set[T comparable](list []T) map[T]bool {
	all := make(map[T]bool, len(list))
	for _, one := range list {
		all[one] = true
	}
	return all
}

// missing are the names in a list that another does not have, sorted.
func missing(from, in corev1.ResourceList) (names []corev1.ResourceName) {
	for _, name := range resources(from) {
		if _, ok := in[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// sameNames reports whether two lists name the same resources.
func sameNames(a, b corev1.ResourceList) bool {
	return len(a) == len(b) && len(missing(a, b)) == 0
}

// sameAmount reports whether a resource has the same amount in two lists, however that is written, or is missing in both.
func sameAmount(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x, inA := a[name]
	y, inB := b[name]
	return inA == inB && x.Cmp(y) == 0
}

// sameList reports whether two lists say the same.
func sameList(a, b corev1.ResourceList) bool {
	return sameNames(a, b) && !slices.ContainsFunc(resources(a), func(name corev1.ResourceName) bool { return !sameAmount(a, b, name) })
}

// over reports whether there is more of a resource in a than in b, where what is missing is zero.
func over(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x := a[name]
	return x.Cmp(b[name]) > 0
}

// add adds a list to a sum, which is not nil.
func add(sum, list corev1.ResourceList) {
	for name, amount := range list {
		total := sum[name].DeepCopy()
		total.Add(amount)
		sum[name] = total
	}
}

// most is the greater amount of each resource.
func most(a, b corev1.ResourceList) corev1.ResourceList {
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

// shown is how many names a message lists.
const shown = 3

// some lists names for people: all, or the first and how many more there are.
func some[T ~string](names []T) string {
	texts := make([]string, 0, shown+1)
	for _, name := range names[:min(shown, len(names))] {
		texts = append(texts, string(name))
	}
	if more := len(names) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), more)
	}
	return strings.Join(texts, ", ")
}

// orNothing says "nothing" for an empty list of names.
func orNothing[T ~string](names []T) string {
	if len(names) == 0 {
		return "nothing"
	}
	return some(names)
}

// amountOf is an amount for people; what is missing is 0.
func amountOf(list corev1.ResourceList, name corev1.ResourceName) string {
	amount := list[name]
	return amount.String()
}
