package validators

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/internal/pattern"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/mutators/labelling"
	"usher.dev/usher/validators/requests"
)

// LabelRules are the rules for labels and annotations of pods. All of them apply.
type LabelRules []LabelRule

// LabelRule is the rule for one label or annotation of the selected pods, or of the objects that match.
type LabelRule struct {
	_ struct{} `schema:"either=label|annotation"`

	Name string `json:"name" doc:"shown in refusals" schema:"required,is=not-empty"`
	config.Selection
	Match      *requests.Match `json:"match,omitempty" doc:"objects of any kind that the rule is for, instead of pods"`
	Label      string          `json:"label,omitempty" doc:"key of the label that the rule is for; a rule has a label or an annotation" schema:"is=label-key"`
	Annotation string          `json:"annotation,omitempty" doc:"key of the annotation that the rule is for" schema:"is=key"`
	Required   bool            `json:"required,omitempty" doc:"refuses pods without the key" default:"false"`
	Pattern    string          `json:"pattern,omitempty" doc:"regular expression in RE2 syntax that the whole value must match; at most 4096 bytes, and 4000 instructions when it is compiled" schema:"is=expression" default:"any value"`
	Values     []string        `json:"values,omitempty" doc:"the allowed values" schema:"most=10000" default:"any value"`
	MaxLength  int             `json:"maxLength,omitempty" doc:"the maximum number of characters of the value; at most 63 for a label" schema:"min=0" default:"no limit"`
	Immutable  bool            `json:"immutable,omitempty" doc:"refuses updates that change or remove the value" default:"false"`
	Workloads  bool            `json:"workloads,omitempty" doc:"also judges the pod templates of workloads" default:"false"`
	Message    string          `json:"message,omitempty" doc:"is added to every refusal"`

	// What is known of the pattern and the rule, once it has been checked.
	size     pattern.Size
	wrong    error // why the pattern cannot be compiled
	compiled *ValueRule
}

// Key returns the key of the label or annotation.
func (r *LabelRule) Key() string { return r.Label + r.Annotation }

// labelRulesSection is the section labelRules.
var labelRulesSection = config.Section[LabelRules]{Name: "labelRules", Check: LabelRules.check, Warnings: LabelRules.warnings,
	Tag: `doc:"what labels and annotations must be; all rules apply"`}

// check returns all problems of the section.
func (r LabelRules) check(at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	tooMuch := r.measure(at)
	problems = append(requests.CheckNumber(len(r.Rules()), at), tooMuch...)
	for i := range r {
		rule, at := &r[i], at.Index(i)
		if rule.Name == "" {
			problems = append(problems, field.Required(at.Child("name"), "the name is shown in refusals"))
		} else if seen[rule.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), rule.Name))
		}
		seen[rule.Name] = true
		problems = append(problems, rule.Selection.Check(at)...)
		problems = append(problems, rule.checkMatch(at)...)
		problems = append(problems, rule.checkKey(at)...)
		if len(tooMuch) == 0 {
			problems = append(problems, rule.checkValues(at)...)
		}
		if !rule.Required && !rule.Immutable && rule.Pattern == "" && len(rule.Values) == 0 && rule.MaxLength == 0 {
			problems = append(problems, field.Required(at, "write required, pattern, values, maxLength or immutable: the rule refuses nothing"))
		}
	}
	return problems
}

// checkMatch returns the problems of a match, and of fields beside it that are about pods.
func (r *LabelRule) checkMatch(at *field.Path) field.ErrorList {
	if r.Match == nil {
		return nil
	}
	problems := r.Match.Check(at.Child("match"))
	if r.NamespaceSelector != nil {
		problems = append(problems, field.Forbidden(at.Child("namespaceSelector"), "write it as match.namespaceSelector"))
	}
	if r.PodSelector != nil {
		problems = append(problems, field.Forbidden(at.Child("podSelector"), "write it as match.objectSelector"))
	}
	if r.Workloads {
		problems = append(problems, field.Forbidden(at.Child("workloads"),
			"a rule with match judges the objects themselves; write another rule for pods and the templates of workloads"))
	}
	written := []string{string(admissionv1.Create), string(admissionv1.Update)}
	r.Match.Each(at.Child("match"), func(one *requests.Requests, at *field.Path) {
		for i, o := range one.Operations {
			if !slices.Contains(written, o) {
				problems = append(problems, field.NotSupported(at.Child("operations").Index(i), o, written))
			}
		}
	})
	return problems
}

// Rules returns the requests that the rules with a match are for, as rules of a webhook.
func (r LabelRules) Rules() (all []admit.Rule) {
	for i := range r {
		if r[i].Match != nil {
			all = append(all, r[i].Match.Rules()...)
		}
	}
	return all
}

// warnings returns the requests that there cannot be, and the defaults that a rule refuses, so that pods which lack the key
// would be refused.
func (r LabelRules) warnings(policy *config.Policy, rules *field.Path) (all []string) {
	for i := range r {
		if r[i].Match != nil {
			all = append(all, r[i].Match.Warnings(rules.Index(i).Child("match"), resources.BuiltIn())...)
		}
	}
	left := maxSteps
	for i, entry := range config.SectionOf[labelling.Defaults](policy) {
		at := field.NewPath(labelling.Section.Name)
		for j, value := range entry.Labels {
			all = append(all, r.refusals(&left, value.Key, "", value, at.Index(i).Child("labels").Index(j))...)
		}
		for j, value := range entry.Annotations {
			all = append(all, r.refusals(&left, "", value.Key, value, at.Index(i).Child("annotations").Index(j))...)
		}
	}
	return all
}

// refusals returns the first rule for a label or an annotation that refuses its default, as far as the steps that are left allow.
func (r LabelRules) refusals(left *int, label, annotation string, value labelling.Value, at *field.Path) []string {
	for i := range r {
		rule := &r[i]
		if rule.Match != nil || value.Value == nil || rule.Label != label || rule.Annotation != annotation {
			continue
		}
		values := rule.Compile()
		if *left -= values.Steps(*value.Value); *left >= 0 && !values.Accepts(*value.Value) {
			return []string{fmt.Sprintf("%s: %q is refused by rule %s of labelRules: pods for which both hold are refused unless they set %s themselves",
				at.Child("value"), *value.Value, rule.Name, value.Key)}
		}
	}
	return nil
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
	if r.wrong == nil {
		r.compiled, r.wrong = r.compile()
	}
	if r.wrong != nil {
		return append(problems, field.Invalid(at.Child("pattern"), admit.Shorten(r.Pattern, 200), r.wrong.Error()))
	}
	withoutValues := *r.compiled
	withoutValues.values = nil
	left := maxSteps
	for i, value := range r.Values {
		if r.Label != "" {
			problems = append(problems, check.LabelValue(value, at.Child("values").Index(i))...)
		}
		if left -= withoutValues.Steps(value); left < 0 {
			return append(problems, field.Forbidden(at.Child("values").Index(i),
				"it takes too long to compare the values with the pattern; leave out the pattern"))
		}
		if !withoutValues.Accepts(value) {
			problems = append(problems, field.Invalid(at.Child("values").Index(i), value, "is refused by pattern or maxLength of the same rule"))
		}
	}
	return problems
}

// The bounds of patterns. Their memory is that of all patterns of a policy, which is there twice during a reload.
const (
	maxPatternText         = 4 << 10
	maxPatternInstructions = 4000
	maxPatternMemory       = 8 << 20
)

// measure measures the patterns, and returns the problem of those that would take too long or too much memory. It must be called before
// one is compiled.
func (r LabelRules) measure(at *field.Path) field.ErrorList {
	parsing, takes, patterns := 0, 0, 0
	for i := range r {
		rule := &r[i]
		if rule.Pattern == "" {
			continue
		}
		if parsing += pattern.Parsing(rule.Pattern); parsing > pattern.MaxParsing {
			return field.ErrorList{field.Forbidden(at.Index(i).Child("pattern"), pattern.Costly)}
		}
		if rule.size, rule.wrong = measured(rule.Pattern); rule.wrong == nil {
			takes, patterns = takes+rule.size.Bytes(), patterns+1
		}
	}
	if takes <= maxPatternMemory {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("%d patterns may take %d MiB of memory when they are compiled, "+
		"and all together at most %d MiB; write maxLength in the place of repetitions such as {1,1000}, "+
		"and one rule in the place of several with the same pattern",
		patterns, (takes+1<<20-1)>>20, maxPatternMemory>>20))}
}

// measured returns the size of a pattern, or why it cannot be compiled.
func measured(text string) (pattern.Size, error) {
	if len(text) > maxPatternText {
		return pattern.Size{}, fmt.Errorf("it has %d bytes, and may have %d; write several rules, or values", len(text), maxPatternText)
	}
	size, err := pattern.Measure(text)
	if err != nil {
		return size, unreadable(err)
	}
	if size.Instructions > maxPatternInstructions {
		return size, fmt.Errorf("it compiles to about %d instructions, and may to %d; repeat less, and write maxLength to bound the length",
			size.Instructions, maxPatternInstructions)
	}
	return size, nil
}

func unreadable(err error) error {
	return fmt.Errorf("%s; write an expression in RE2 syntax", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

func anchored(pattern string) string { return `\A(?:` + pattern + `)\z` }

// ValueRule is the part of a LabelRule that judges values, compiled.
type ValueRule struct {
	pattern *regexp.Regexp // nil: all
	size    pattern.Size
	values  []string
	length  int
}

// Compile returns the rule in the form that steps use for each request. It panics on a pattern that the check refuses.
func (r *LabelRule) Compile() *ValueRule {
	if r.compiled != nil {
		return r.compiled
	}
	if r.size, r.wrong = measured(r.Pattern); r.wrong == nil {
		r.compiled, r.wrong = r.compile()
	}
	if r.wrong != nil {
		panic(r.wrong)
	}
	return r.compiled
}

// compile compiles the rule, whose pattern has been measured. Some patterns can be compiled alone, but not in their anchored form:
// a quotation \Q without its \E would swallow the end of the latter.
func (r *LabelRule) compile() (_ *ValueRule, err error) {
	compiled := &ValueRule{size: r.size, values: r.Values, length: r.MaxLength}
	if r.Pattern != "" {
		if compiled.pattern, err = regexp.Compile(anchored(r.Pattern)); err != nil {
			return nil, unreadable(err)
		}
	}
	return compiled, nil
}

// Steps returns how many steps it takes at most to match a value; 0 if that is not necessary.
func (r *ValueRule) Steps(value string) int {
	if r.pattern == nil || r.tooLong(value) {
		return 0
	}
	return r.size.Instructions * len(value)
}

// tooLong reports whether a value is longer than any that meets the rule.
func (r *ValueRule) tooLong(value string) bool {
	most := cmp.Or(r.length, math.MaxInt)
	if r.pattern != nil && r.size.Longest != pattern.Unlimited {
		most = min(most, r.size.Longest)
	}
	return len(value) > most && utf8.RuneCountInString(value) > most
}

// Accepts reports whether a value meets the rule.
func (r *ValueRule) Accepts(value string) bool {
	switch {
	case r.tooLong(value):
		return false
	case len(r.values) > 0 && !slices.Contains(r.values, value):
		return false
	}
	return r.pattern == nil || r.pattern.MatchString(value)
}
