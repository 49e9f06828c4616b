package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/nearest"
)

func checkModes(modes admit.Modes, steps []string, at *field.Path) (problems field.ErrorList) {
	for name := range modes {
		if slices.Contains(steps, name) {
			continue
		}
		if best := nearest.Of(name, steps); best != "" {
			problems = append(problems, field.Invalid(at, name, "is not a step; did you mean "+best+"?"))
		} else {
			problems = append(problems, field.NotSupported(at, name, steps))
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return problems
}
