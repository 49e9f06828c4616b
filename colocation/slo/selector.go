package slo

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/selector"
)

// compileSelector compiles the value of nodeSelector; null and an empty selector are refused, because an entry is for a
// subset of the nodes. It returns nil for a broken one.
func compileSelector(value any, at *field.Path, found *finding) selector.Constraints {
	tree, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil // of the wrong type, which is reported elsewhere
	}
	from, whole := labelSelector(tree)
	if !whole {
		return nil
	}
	if selector.Empty(&from) {
		found.add(field.Required(at,
			"must select nodes by matchLabels or matchExpressions; what is for all nodes belongs to the cluster's strategy"))
		return nil
	}
	before := found.count()
	checkSelector(from, at, found)
	if found.count() > before {
		return nil
	}
	s := selector.Of(&from)
	if key, possible := s.Possible(); !possible {
		found.warnf("%s: selects no node: what it asks of label %s contradicts itself", at, key)
	}
	return s
}

// labelSelector extracts the typed form from a tree; false if a part of it has the wrong type, which is reported
// elsewhere.
func labelSelector(tree map[string]any) (s metav1.LabelSelector, whole bool) {
	whole = true
	labels := members(tree["matchLabels"], &whole)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[key] = textOf(labels[key], &whole)
	}
	for _, value := range elements(tree["matchExpressions"], &whole) {
		expression := members(value, &whole)
		e := metav1.LabelSelectorRequirement{
			Key: textOf(expression["key"], &whole), Operator: metav1.LabelSelectorOperator(textOf(expression["operator"], &whole)),
		}
		for _, value := range elements(expression["values"], &whole) {
			e.Values = append(e.Values, textOf(value, &whole))
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s, whole
}

// These extract a part of a tree, with null as the zero value, and clear ok if it has the wrong type.
func textOf(value any, ok *bool) string          { return as[string](value, ok) }
func elements(value any, ok *bool) []any         { return as[[]any](value, ok) }
func members(value any, ok *bool) map[string]any { return as[map[string]any](value, ok) }
func as[T any](value any, ok *bool) (part T) {
	part, fits := value.(T)
	if !fits && value != nil {
		*ok = false
	}
	return part
}

// checkSelector reports what is invalid in a label selector.
func checkSelector(from metav1.LabelSelector, at *field.Path, found *finding) {
	for _, key := range slices.Sorted(maps.Keys(from.MatchLabels)) {
		path := at.Child("matchLabels").Key(shorten(key))
		for _, err := range metavalidation.ValidateLabelName(key, path) {
			found.add(err)
		}
		for _, rule := range validation.IsValidLabelValue(from.MatchLabels[key]) {
			found.invalid(path, from.MatchLabels[key], "%s", rule)
		}
	}
	expressions := metav1.LabelSelector{MatchExpressions: from.MatchExpressions}
	for _, err := range metavalidation.ValidateLabelSelector(&expressions, metavalidation.LabelSelectorValidationOptions{}, at) {
		if strings.HasSuffix(err.Field, ".operator") {
			err.Detail = "must be In, NotIn, Exists or DoesNotExist"
		}
		found.add(err)
	}
}
