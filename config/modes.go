package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/nearest"
)

// checkModes returns the modes of steps that do not exist.
func checkModes(modes admit.Modes, steps []string, at *field.Path) (problems field.ErrorList) {
	for name := range modes {
		if slices.Contains(steps, name) {
			continue
		}
		problems = append(problems, noStep(name, steps, at))
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return problems
}

// noStep returns the problem of a name that no step has.
func noStep(name string, steps []string, at *field.Path) *field.Error {
	if best := nearest.Of(name, steps); best != "" {
		return field.Invalid(at, name, "is not a step; did you mean "+best+"?")
	}
	return field.NotSupported(at, name, steps)
}
