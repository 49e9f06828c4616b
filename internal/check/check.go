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
func LabelName(name string, at *field.Path) field.ErrorList {
	return invalid(name, at, validation.IsDNS1123Label(name))
}

// ObjectName returns the problems of a name that must be a DNS subdomain, as those of most objects.
func ObjectName(name string, at *field.Path) field.ErrorList {
	return invalid(name, at, validation.IsDNS1123Subdomain(name))
}

// Key returns the problems of the key of a label, or of the key of an annotation in lower case.
func Key(key string, at *field.Path) field.ErrorList {
	return invalid(key, at, validation.IsQualifiedName(key))
}

// LabelValue returns the problems of the value of a label.
func LabelValue(value string, at *field.Path) field.ErrorList {
	return invalid(value, at, validation.IsValidLabelValue(value))
}

// EnvName returns the problems of the name of an environment variable.
func EnvName(name string, at *field.Path) field.ErrorList {
	return invalid(name, at, validation.IsEnvVarName(name))
}

func invalid(value string, at *field.Path, problems []string) (all field.ErrorList) {
	for _, problem := range problems {
		all = append(all, field.Invalid(at, value, problem))
	}
	return all
}
