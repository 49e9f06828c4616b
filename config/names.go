package config

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Names is the policy on names.
type Names struct {
	// Denied are words that the name of a pod must not contain.
	Denied []string `json:"denied"`
}

// Check implements Section.
func (n *Names) Check(at *field.Path) (problems field.ErrorList) {
	for i, word := range n.Denied {
		if word == "" || strings.ToLower(word) != word || len(validation.IsDNS1123Subdomain("a"+word+"a")) > 0 {
			problems = append(problems, field.Invalid(at.Child("denied").Index(i), word,
				"can never stand in a pod's name: use lower-case letters, digits, '-' and '.'"))
		}
	}
	return problems
}
