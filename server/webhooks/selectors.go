package webhooks

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/internal/nearest"
	labelselector "usher.dev/usher/internal/selector"
)

// withOthers returns the needed selector with what others have added to the registered one, such as AKS, which keeps
// webhooks away from its own namespaces. A selector is one field for the API server, so usher and they cannot own their
// parts of it; a part belongs to the writer that knows its label. A misspelt label of usher's is nobody's.
func withOthers(needed, registered *metav1.LabelSelector) *metav1.LabelSelector {
	if registered == nil {
		return needed
	}
	if needed == nil {
		needed = &metav1.LabelSelector{}
	}
	merged := needed.DeepCopy()
	for _, key := range slices.Sorted(maps.Keys(registered.MatchLabels)) {
		if !knows(needed, key) && misspelt(needed, key) == "" {
			metav1.AddLabelToSelector(merged, key, registered.MatchLabels[key])
		}
	}
	for _, part := range registered.MatchExpressions {
		if !knows(needed, part.Key) && misspelt(needed, part.Key) == "" {
			merged.MatchExpressions = append(merged.MatchExpressions, part)
		}
	}
	switch {
	case sameParts(merged, registered):
		return registered // in their order
	case labelselector.Empty(merged):
		return nil
	}
	return merged
}

// knows reports whether usher selects by a label.
func knows(needed *metav1.LabelSelector, key string) bool {
	return key == corev1.LabelMetadataName || strings.HasPrefix(key, "usher.dev/") ||
		slices.ContainsFunc(labelselector.Requirements(needed), func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}

// misspelt returns the label that usher selects by and that another label was meant to be, or "".
func misspelt(needed *metav1.LabelSelector, key string) string {
	for _, r := range append(labelselector.Requirements(needed), metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName}) {
		if nearest.Slip(key, r.Key) {
			return r.Key
		}
	}
	return ""
}

// sameParts reports whether two selectors are the same except for the order of their expressions.
func sameParts(a, b *metav1.LabelSelector) bool {
	sorted := func(s *metav1.LabelSelector) []string {
		var parts []string
		for _, r := range s.MatchExpressions {
			parts = append(parts, r.Key+" "+string(r.Operator)+" "+strings.Join(slices.Sorted(slices.Values(r.Values)), ","))
		}
		slices.Sort(parts)
		return parts
	}
	return slices.Equal(sorted(a), sorted(b)) && equality.Semantic.DeepEqual(a.MatchLabels, b.MatchLabels)
}

// leavesOut reports whether a registered selector is the needed one, apart from more values that it leaves out.
func leavesOut(needed, registered *metav1.LabelSelector) bool {
	if needed == nil || registered == nil || !equality.Semantic.DeepEqual(needed.MatchLabels, registered.MatchLabels) {
		return false
	}
	return !slices.ContainsFunc(needed.MatchExpressions, func(n metav1.LabelSelectorRequirement) bool {
		return !slices.ContainsFunc(registered.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Key == n.Key && r.Operator == n.Operator &&
				!slices.ContainsFunc(n.Values, func(value string) bool { return !slices.Contains(r.Values, value) }) &&
				(len(r.Values) == len(n.Values) || r.Operator == metav1.LabelSelectorOpNotIn)
		})
	})
}
