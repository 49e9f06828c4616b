package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// checkNamed returns the problems of the elements of a list, and those of names that occur again.
func checkNamed[T any](list []T, at *field.Path, name func(*T) string, check func(*T, *field.Path) field.ErrorList) (problems field.ErrorList) {
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
