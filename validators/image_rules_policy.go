package validators

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/validators/imageref"
)

// ImageRules is the policy on images. An image must satisfy every rule that selects its pod.
type ImageRules []ImageRule

// ImageRule restricts the images of the selected pods.
type ImageRule struct {
	// Name is shown in refusals.
	Name string `json:"name"`
	// Selection selects the pods.
	config.Selection `json:",inline"`
	// Repositories are patterns of imageref, of which one must match. None: all repositories are allowed.
	Repositories []string `json:"repositories,omitempty"`
	// RefusedTags are tags that an image without a digest must not have; * stands for any characters. An image without a
	// tag has the tag latest.
	RefusedTags []string `json:"refusedTags,omitempty"`
	// Digests are patterns of the repositories whose images must be named by their digest.
	Digests []string `json:"digests,omitempty"`
}

// imageRulesSection is the section imageRules.
var imageRulesSection = config.Section[ImageRules]{Name: "imageRules", Check: ImageRules.check}

// check returns all problems of the section.
func (rules ImageRules) check(at *field.Path) field.ErrorList {
	return check.Named(rules, at, func(e *ImageRule) string { return e.Name }, (*ImageRule).check)
}

// check returns all problems of the rule.
func (r *ImageRule) check(at *field.Path) (problems field.ErrorList) {
	problems = append(problems, check.LabelName(r.Name, at.Child("name"))...)
	problems = append(problems, r.Selection.Check(at)...)
	if len(r.Repositories)+len(r.RefusedTags)+len(r.Digests) == 0 {
		problems = append(problems, field.Required(at, "asks for nothing; write repositories, refusedTags or digests"))
	}
	problems = append(problems, checkPatterns(r.Repositories, at.Child("repositories"))...)
	problems = append(problems, checkPatterns(r.Digests, at.Child("digests"))...)
	for i, tag := range r.RefusedTags {
		if tag == "" || strings.Trim(strings.ToLower(tag), "abcdefghijklmnopqrstuvwxyz0123456789._-*") != "" {
			problems = append(problems, field.Invalid(at.Child("refusedTags").Index(i), tag,
				"is no tag: use letters, digits, '.', '_', '-', and * for any characters"))
		}
	}
	return problems
}

func checkPatterns(patterns []string, at *field.Path) (problems field.ErrorList) {
	for i, text := range patterns {
		if _, err := imageref.ParsePattern(text); err != nil {
			problems = append(problems, field.Invalid(at.Index(i), text, err.Error()))
		}
	}
	return problems
}

// patterns returns compiled patterns. It panics on one that the check refuses.
func patterns(texts []string) []imageref.Pattern {
	all := make([]imageref.Pattern, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = imageref.ParsePattern(text); err != nil {
			panic(fmt.Sprintf("image-rules: a pattern that was not checked: %v", err))
		}
	}
	return all
}
