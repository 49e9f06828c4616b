package config

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	for _, key := range keysOf(s) {
		if wanted := wantedOf(s, key); !wanted.possible() {
			return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(s), "can never match: what it asks of "+key+" is a contradiction")}
		}
	}
	return nil
}

// wanted is what a selector asks of one label.
type wanted struct {
	present, absent bool
	listed          bool // the value must be one of values
	values, not     []string
}

func (w wanted) possible() bool {
	if w.absent {
		return !w.present
	}
	return !w.listed || slices.ContainsFunc(w.values, func(v string) bool { return !slices.Contains(w.not, v) })
}

// allow narrows the values down to some.
func (w *wanted) allow(values []string) {
	if !w.listed {
		w.values, w.listed, w.present = values, true, true
		return
	}
	w.values = slices.DeleteFunc(slices.Clone(w.values), func(v string) bool { return !slices.Contains(values, v) })
}

func wantedOf(s *metav1.LabelSelector, key string) (w wanted) {
	if value, found := s.MatchLabels[key]; found {
		w.allow([]string{value})
	}
	for _, part := range s.MatchExpressions {
		if part.Key != key {
			continue
		}
		switch part.Operator {
		case metav1.LabelSelectorOpIn:
			w.allow(part.Values)
		case metav1.LabelSelectorOpNotIn:
			w.not = append(w.not, part.Values...)
		case metav1.LabelSelectorOpExists:
			w.present = true
		case metav1.LabelSelectorOpDoesNotExist:
			w.absent = true
		}
	}
	return w
}

// keysOf returns the labels that a selector is about, sorted.
func keysOf(s *metav1.LabelSelector) (keys []string) {
	for key := range s.MatchLabels {
		keys = append(keys, key)
	}
	for _, part := range s.MatchExpressions {
		keys = append(keys, part.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// isEmpty reports whether a selector selects everything.
func isEmpty(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// compileSelector returns a selector of the policy in the form that matches labels; nil if it selects everything. One
// that Check refuses selects nothing.
func compileSelector(s *metav1.LabelSelector) labels.Selector {
	if isEmpty(s) {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing() // it has been reported
	}
	return selector
}
