// Package selector analyses label selectors: what they ask of each label, and which of many may match an object.
package selector

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Empty reports whether a selector selects everything.
func Empty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// Requirements returns the parts of a selector as expressions, matchLabels first and sorted.
func Requirements(s *metav1.LabelSelector) (all []metav1.LabelSelectorRequirement) {
	if s == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		all = append(all, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{s.MatchLabels[key]}})
	}
	return append(all, s.MatchExpressions...)
}

// Possible reports whether any labels can meet a valid selector. If not, key is the label with the contradiction.
func Possible(s *metav1.LabelSelector) (key string, possible bool) { return Of(s).Possible() }

// Terms returns the labels that an object must have to be selected; nil for a nil selector, which selects everything.
func Terms(s labels.Selector) (all []Term[string]) {
	if s == nil {
		return nil
	}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			all = append(all, Term[string]{Key: r.Key(), Values: r.Values().List()})
		case selection.Exists:
			all = append(all, Term[string]{Key: r.Key(), Any: true})
		}
	}
	return all
}
