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
	_ struct{} `schema:"either=repositories|refusedTags|digests"`

	Name              string `json:"name" doc:"shown in refusals" schema:"required,is=dns-label"`
	config.Selection  `json:",inline"`
	Repositories      []string `json:"repositories,omitempty" doc:"patterns REGISTRY/REPOSITORY, one of which must match; * is any text within a part, and ** at the end is everything that follows" schema:"is=image-pattern" default:"all"`
	RefusedTags       []string `json:"refusedTags,omitempty" doc:"tags that an image without a digest must not have; * is any text, and an image without a tag has the tag latest" schema:"is=image-tag" default:"none"`
	RefusedTagsExcept []string `json:"refusedTagsExcept,omitempty" doc:"patterns of repositories whose images may have any tag" schema:"is=image-pattern" default:"none"`
	Digests           []string `json:"digests,omitempty" doc:"patterns of repositories whose images must be named by their digest" schema:"is=image-pattern" default:"none"`
}

// imageRulesSection is the section imageRules.
var imageRulesSection = config.Section[ImageRules]{Name: "imageRules", Check: ImageRules.check,
	Tag: `doc:"what images must be; every rule that selects a pod must be satisfied"`}

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
	problems = append(problems, checkPatterns(r.RefusedTagsExcept, at.Child("refusedTagsExcept"))...)
	if len(r.RefusedTagsExcept) > 0 && len(r.RefusedTags) == 0 {
		problems = append(problems, field.Required(at.Child("refusedTags"), "required when refusedTagsExcept is set"))
	}
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
