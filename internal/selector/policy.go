package selector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check returns the problems of a label selector.
func Check(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
}

// CheckPossible returns the problems of a label selector, which may be nil. That no labels can satisfy it is a problem,
// too.
func CheckPossible(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	problems := Check(s, at)
	if len(problems) > 0 {
		return problems
	}
	if key, possible := Possible(s); !possible {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(s), "can never match: what it asks of "+key+" is a contradiction")}
	}
	return nil
}

// Compile returns a selector in the form that matches labels; nil if it selects everything. A selector that Check refuses
// selects nothing.
func Compile(s *metav1.LabelSelector) labels.Selector {
	if Empty(s) {
		return nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing() // it has been reported
	}
	return compiled
}
