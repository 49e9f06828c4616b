package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Lifespan is the policy on how long a node must still live for a pod to run there.
type Lifespan struct {
	// Label is the pod label that asks for a number of days.
	Label string `json:"label"`
	// Taint is the key of the node taint that says how many days are left.
	Taint string `json:"taint"`
	// Max is the largest number of days, 1 to 100.
	Max int `json:"max"`
}

// Check is Section's.
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
