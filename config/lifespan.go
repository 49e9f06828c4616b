package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Lifespan is the policy on the remaining lifetime of the nodes that a pod may run on.
type Lifespan struct {
	// Label is the key of the pod label with the requested number of days.
	Label string `json:"label"`
	// Taint is the key of the node taint with the number of days left.
	Taint string `json:"taint"`
	// Max is the largest number of days, 1 to 100.
	Max int `json:"max"`
}

// Check implements Section.
func (l *Lifespan) Check(at *field.Path) (problems field.ErrorList) {
	for name, key := range map[string]string{"label": l.Label, "taint": l.Taint} {
		for _, problem := range validation.IsQualifiedName(key) {
			problems = append(problems, field.Invalid(at.Child(name), key, problem))
		}
	}
	if l.Max < 1 || l.Max > 100 {
		problems = append(problems, field.Invalid(at.Child("max"), l.Max, "must be from 1 to 100: a pod gets a toleration for each day"))
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return problems
}
