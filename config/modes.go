package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

func checkModes(modes admit.Modes, steps []string, at *field.Path) (problems field.ErrorList) {
	known := []admit.Mode{admit.Enforce, admit.Warn, admit.DryRun, admit.Off}
	for name, mode := range modes {
		if !slices.Contains(steps, name) {
			problems = append(problems, field.NotSupported(at, name, steps))
		}
		if !slices.Contains(known, mode) {
			problems = append(problems, field.NotSupported(at.Key(name), mode, known))
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return problems
}
