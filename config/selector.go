package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/selector"
)

// checkMatchable returns the problems of a label selector, which may be nil. That no labels can satisfy it is a problem,
// too.
func checkMatchable(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	problems := CheckSelector(s, at)
	if len(problems) > 0 {
		return problems
	}
	if key, possible := selector.Possible(s); !possible {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(s), "can never match: what it asks of "+key+" is a contradiction")}
	}
	return nil
}

// compileSelector returns a selector of the policy in the form that matches labels; nil if it selects everything. One
// that Check refuses selects nothing.
func compileSelector(s *metav1.LabelSelector) labels.Selector {
	if selector.Empty(s) {
		return nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing() // it has been reported
	}
	return compiled
}
