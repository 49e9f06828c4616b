// Package selector analyses label selectors: what they ask of each label, and which of many may match an object.
package selector

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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

// AsksForLabel reports whether a valid selector matches no object without labels.
func AsksForLabel(s *metav1.LabelSelector) bool { return len(Of(s).Terms()) > 0 }

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

// Text says what a part of a selector asks for, such as "asks for the label app".
func Text(r metav1.LabelSelectorRequirement) string {
	switch r.Operator {
	case metav1.LabelSelectorOpIn:
		if len(r.Values) == 1 {
			return fmt.Sprintf("asks for the label %s: %s", r.Key, r.Values[0])
		}
		return fmt.Sprintf("asks for the label %s with one of the values %s", r.Key, strings.Join(r.Values, ", "))
	case metav1.LabelSelectorOpNotIn:
		return fmt.Sprintf("leaves out %s: %s", r.Key, strings.Join(r.Values, ", "))
	case metav1.LabelSelectorOpExists:
		return "asks for the label " + r.Key
	}
	return "leaves out what has the label " + r.Key
}
