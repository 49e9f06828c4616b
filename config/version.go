package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// The fields apiVersion and kind of a policy file, which may leave out both.
const (
	APIVersion = "usher.dev/v1" // of all files that people write for usher
	Kind       = "Policy"
)

// CheckVersion returns the problems of the fields apiVersion and kind of a file of a kind.
func CheckVersion(members map[string]any, kind string) (problems field.ErrorList) {
	if is, written := members["apiVersion"]; written && is != APIVersion {
		problems = append(problems, field.Invalid(field.NewPath("apiVersion"), abbreviate(is),
			"must be "+APIVersion+", the only version that this usher reads; left out, it is the same"))
	}
	if is, written := members["kind"]; written && is != kind {
		problems = append(problems, field.Invalid(field.NewPath("kind"), abbreviate(is), "must be "+kind+" in this file; left out, it is the same"))
	}
	return problems
}
