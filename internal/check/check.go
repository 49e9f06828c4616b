// Package check has checks that several sections of a policy share.
package check

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Named returns the problems of the elements of a list, and of names that occur again.
func Named[T any](list []T, at *field.Path, name func(*T) string, check func(*T, *field.Path) field.ErrorList) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i := range list {
		at, is := at.Index(i), name(&list[i])
		problems = append(problems, check(&list[i], at)...)
		if seen[is] && is != "" {
			problems = append(problems, field.Duplicate(at.Child("name"), is))
		}
		seen[is] = true
	}
	return problems
}

// LabelName returns the problems of a name that must be a DNS label.
func LabelName(name string, at *field.Path) (problems field.ErrorList) {
	for _, problem := range validation.IsDNS1123Label(name) {
		problems = append(problems, field.Invalid(at, name, problem))
	}
	return problems
}

// ObjectName returns the problems of a name that must be a DNS subdomain, as those of most objects.
func ObjectName(name string, at *field.Path) (problems field.ErrorList) {
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		problems = append(problems, field.Invalid(at, name, problem))
	}
	return problems
}

// Key returns the problems of the key of a label, or of the key of an annotation in lower case.
func Key(key string, at *field.Path) (problems field.ErrorList) {
	for _, problem := range validation.IsQualifiedName(key) {
		problems = append(problems, field.Invalid(at, key, problem))
	}
	return problems
}

// LabelValue returns the problems of the value of a label.
func LabelValue(value string, at *field.Path) (problems field.ErrorList) {
	for _, problem := range validation.IsValidLabelValue(value) {
		problems = append(problems, field.Invalid(at, value, problem))
	}
	return problems
}
