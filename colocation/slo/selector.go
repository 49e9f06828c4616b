package slo

import (
	"encoding/json"
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

// labelSelector returns the typed form of a tree; false if a part of it has the wrong type, which is reported
// elsewhere.
func labelSelector(tree map[string]any) (s metav1.LabelSelector, whole bool) {
	text, err := json.Marshal(tree)
	return s, err == nil && json.Unmarshal(text, &s) == nil
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
