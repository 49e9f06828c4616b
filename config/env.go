package config

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Env is the policy on environment variables: each is set in every container that does not set it itself.
type Env []Variable

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Check implements Section.
func (env Env) Check(at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, v := range env {
		for _, problem := range validation.IsEnvVarName(v.Name) {
			problems = append(problems, field.Invalid(at.Index(i).Child("name"), v.Name, problem))
		}
		if seen[v.Name] {
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), v.Name))
		}
		seen[v.Name] = true
	}
	return problems
}
