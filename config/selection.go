package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/selector"
)

// Selection configures which pods a section of the policy selects, by the labels of their namespace and their own. A
// selector that is left out or empty selects everything.
type Selection struct {
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty" doc:"selects pods by the labels of their namespace" default:"all namespaces"`
	PodSelector       *metav1.LabelSelector `json:"podSelector,omitempty" doc:"selects pods by their labels" default:"all pods"`
}

// Check returns all problems of the selectors. at is the path of the object that has the two fields.
func (s Selection) Check(at *field.Path) (problems field.ErrorList) {
	if s.NamespaceSelector != nil {
		problems = append(problems, selector.Check(s.NamespaceSelector, at.Child("namespaceSelector"))...)
	}
	if s.PodSelector != nil {
		problems = append(problems, selector.Check(s.PodSelector, at.Child("podSelector"))...)
	}
	return problems
}

// Compile returns the selection in the form that steps use for each request.
func (s Selection) Compile() CompiledSelection {
	return CompiledSelection{namespaces: selector.Compile(s.NamespaceSelector), pods: selector.Compile(s.PodSelector)}
}

// CompiledSelection is a Selection with compiled selectors. The zero value selects everything.
type CompiledSelection struct {
	namespaces, pods labels.Selector // nil: all
}

// NeedsNamespace reports whether the selection depends on the labels of the namespace.
func (s CompiledSelection) NeedsNamespace() bool { return s.namespaces != nil }

// Matches reports whether an object with the given labels, in the namespace with the given labels, is selected. It
// calls namespace only if the selection depends on it and the object's own labels match; an error of namespace is
// returned as it is.
func (s CompiledSelection) Matches(object labels.Labels, namespace func() (map[string]string, error)) (bool, error) {
	if s.pods != nil && !s.pods.Matches(object) {
		return false, nil
	}
	if s.namespaces == nil {
		return true, nil
	}
	of, err := namespace()
	if err != nil {
		return false, err
	}
	return s.namespaces.Matches(labels.Set(of)), nil
}
