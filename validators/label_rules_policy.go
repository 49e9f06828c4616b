package validators

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/mutators/labelling"
)

// LabelRules are the rules for labels and annotations of pods. All of them apply.
type LabelRules []LabelRule

// LabelRule is the rule for one label or annotation of the selected pods.
type LabelRule struct {
	// Name is shown in refusals.
	Name string `json:"name"`
	config.Selection
	// Label or Annotation is the key; exactly one of them is set.
	Label      string `json:"label,omitempty"`
	Annotation string `json:"annotation,omitempty"`
	// Required refuses pods without the key.
	Required bool `json:"required,omitempty"`
	// Pattern is an RE2 expression that the whole value must match.
	Pattern string `json:"pattern,omitempty"`
	// Values are the allowed values; none: all.
	Values []string `json:"values,omitempty"`
	// MaxLength is the largest number of characters of the value; 0: no limit.
	MaxLength int `json:"maxLength,omitempty"`
	// Immutable refuses updates that change or remove the value.
	Immutable bool `json:"immutable,omitempty"`
	// Workloads applies the rule to the pod templates of workloads as well.
	Workloads bool `json:"workloads,omitempty"`
	// Message is added to every refusal.
	Message string `json:"message,omitempty"`
}

// Key returns the key of the label or annotation.
func (r *LabelRule) Key() string { return r.Label + r.Annotation }

// labelRulesSection is the section labelRules.
var labelRulesSection = config.Section[LabelRules]{Name: "labelRules", Check: LabelRules.check, Warnings: LabelRules.warnings}

// check returns all problems of the section.
func (r LabelRules) check(at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, rule := range r {
		at := at.Index(i)
		if rule.Name == "" {
			problems = append(problems, field.Required(at.Child("name"), "the name is shown in refusals"))
		} else if seen[rule.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), rule.Name))
		}
		seen[rule.Name] = true
		problems = append(problems, rule.Selection.Check(at)...)
		problems = append(problems, rule.checkKey(at)...)
		problems = append(problems, rule.checkValues(at)...)
		if !rule.Required && !rule.Immutable && rule.Pattern == "" && len(rule.Values) == 0 && rule.MaxLength == 0 {
			problems = append(problems, field.Required(at, "write required, pattern, values, maxLength or immutable: the rule refuses nothing"))
		}
	}
	return problems
}

// warnings returns the defaults that a rule refuses, so that pods which lack the key would be refused.
func (r LabelRules) warnings(policy *config.Policy, _ *field.Path) (all []string) {
	for i, entry := range config.SectionOf[labelling.Defaults](policy) {
		at := field.NewPath(labelling.Section.Name)
		for j, value := range entry.Labels {
			all = append(all, r.refusals(value.Key, "", value, at.Index(i).Child("labels").Index(j))...)
		}
		for j, value := range entry.Annotations {
			all = append(all, r.refusals("", value.Key, value, at.Index(i).Child("annotations").Index(j))...)
		}
	}
	return all
}

// refusals returns the rules for a label or an annotation that refuse its default.
func (r LabelRules) refusals(label, annotation string, value labelling.Value, at *field.Path) (all []string) {
	for _, rule := range r {
		if value.Value != nil && rule.Label == label && rule.Annotation == annotation && !rule.Compile().Accepts(*value.Value) {
			all = append(all, fmt.Sprintf("%s: %q is refused by rule %s of labelRules: pods for which both hold are refused unless they set %s themselves",
				at.Child("value"), *value.Value, rule.Name, value.Key))
		}
	}
	return all
}

func (r *LabelRule) checkKey(at *field.Path) field.ErrorList {
	switch {
	case r.Label != "" && r.Annotation != "":
		return field.ErrorList{field.Forbidden(at.Child("annotation"), "label is set, too; write two rules")}
	case r.Annotation != "":
		return check.Key(strings.ToLower(r.Annotation), at.Child("annotation"))
	case r.Label != "":
		return check.Key(r.Label, at.Child("label"))
	}
	return field.ErrorList{field.Required(at.Child("label"), "write the key of a label, or of an annotation")}
}

// checkValues refuses what no value could satisfy.
func (r *LabelRule) checkValues(at *field.Path) (problems field.ErrorList) {
	if r.MaxLength < 0 || r.Label != "" && r.MaxLength > validation.LabelValueMaxLength {
		problems = append(problems, field.Invalid(at.Child("maxLength"), r.MaxLength,
			fmt.Sprintf("must be from 1 to %d for a label; leave it out for no limit", validation.LabelValueMaxLength)))
	}
	if err := r.checkPattern(); err != nil {
		return append(problems, field.Invalid(at.Child("pattern"), r.Pattern,
			strings.TrimPrefix(err.Error(), "error parsing regexp: ")+"; write an expression in RE2 syntax"))
	}
	accepts := r.withoutValues()
	for i, value := range r.Values {
		if r.Label != "" {
			problems = append(problems, check.LabelValue(value, at.Child("values").Index(i))...)
		}
		if !accepts.Accepts(value) {
			problems = append(problems, field.Invalid(at.Child("values").Index(i), value, "is refused by pattern or maxLength of the same rule"))
		}
	}
	return problems
}

// checkPattern returns the first error of the pattern alone and in its anchored form: a quotation \Q without its \E
// would swallow the end of the latter.
func (r *LabelRule) checkPattern() error {
	if _, err := regexp.Compile(r.Pattern); err != nil {
		return err
	}
	_, err := regexp.Compile(anchored(r.Pattern))
	return err
}

func anchored(pattern string) string { return `\A(?:` + pattern + `)\z` }

func (r *LabelRule) withoutValues() *ValueRule {
	open := *r
	open.Values = nil
	return open.Compile()
}

// ValueRule is the part of a LabelRule that judges values, compiled.
type ValueRule struct {
	pattern *regexp.Regexp // nil: all
	values  []string
	length  int
}

// Compile returns the rule in the form that steps use for each request. It panics on a pattern that the check refuses.
func (r *LabelRule) Compile() *ValueRule {
	compiled := &ValueRule{values: r.Values, length: r.MaxLength}
	if r.Pattern != "" {
		compiled.pattern = regexp.MustCompile(anchored(r.Pattern))
	}
	return compiled
}

// Accepts reports whether a value meets the rule.
func (r *ValueRule) Accepts(value string) bool {
	switch {
	case r.length > 0 && utf8.RuneCountInString(value) > r.length:
		return false
	case len(r.values) > 0 && !slices.Contains(r.values, value):
		return false
	}
	return r.pattern == nil || r.pattern.MatchString(value)
}
