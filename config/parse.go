package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
)

// Parse reads a policy file, YAML or JSON. steps are the names that modes may use. All problems are reported at once, each
// with its path; then the policy is nil.
func Parse(raw []byte, steps []string) (*Policy, []error) {
	text, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, []error{fmt.Errorf("not YAML: %w", err)}
	}
	if string(text) == "null" {
		return nil, []error{errors.New("the policy is empty; write {} for a policy that does nothing")}
	}
	if secondDocument.Match(raw) {
		return nil, []error{errors.New("the policy is one YAML document: what follows --- or ... would be ignored")}
	}
	policy := &Policy{}
	problems, err := kjson.UnmarshalStrict(text, policy)
	if err != nil {
		return nil, append(problems, err)
	}
	for _, problem := range policy.check(steps) {
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return policy, nil
}

// secondDocument matches what ends a YAML document before the end of the file.
var secondDocument = regexp.MustCompile(`(?m)^[^#\n].*\n(.*\n)*(---|\.\.\.)(\s|$)`)

// check finds everything that is wrong with a decoded policy.
func (p *Policy) check(steps []string) (problems field.ErrorList) {
	if p.Names != nil {
		problems = append(problems, p.Names.check(field.NewPath("names"))...)
	}
	if p.Lifespan != nil {
		problems = append(problems, p.Lifespan.check(field.NewPath("lifespan"))...)
	}
	problems = append(problems, checkEnv(p.Env, field.NewPath("env"))...)
	if p.Overcommit != nil {
		problems = append(problems, p.Overcommit.check(field.NewPath("overcommit", "pools"))...)
	}
	if p.NodeAmplification != nil {
		problems = append(problems, p.NodeAmplification.check(field.NewPath("nodeAmplification", "pools"))...)
	}
	if p.Binding != nil {
		problems = append(problems, p.Binding.check(field.NewPath("binding"))...)
	}
	return append(problems, checkModes(p.Modes, steps, field.NewPath("modes"))...)
}

func (n *Names) check(at *field.Path) (problems field.ErrorList) {
	for i, word := range n.Denied {
		if word == "" || strings.ToLower(word) != word || len(validation.IsDNS1123Subdomain("a"+word+"a")) > 0 {
			problems = append(problems, field.Invalid(at.Child("denied").Index(i), word,
				"can never stand in a pod's name: use lower-case letters, digits, '-' and '.'"))
		}
	}
	return problems
}

func (l *Lifespan) check(at *field.Path) (problems field.ErrorList) {
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

func checkEnv(env []Variable, at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, v := range env {
		for _, problem := range validation.IsEnvVarName(v.Name) {
			problems = append(problems, field.Invalid(at.Index(i).Child("name"), v.Name, problem))
		}
		if seen[v.Name] {
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), v.Name))
		}
		seen[v.Name] = true
	}
	return problems
}

func (o *Overcommit) check(at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, pool := range o.Pools {
		problems = append(problems, pool.check(at.Index(i))...)
		if seen[pool.Name] {
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), pool.Name))
		}
		seen[pool.Name] = true
	}
	return problems
}

func (p *Pool) check(at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if p.Name == "" {
		problems = append(problems, field.Required(at.Child("name"), "the name is shown where the pool's ratios are used"))
	}
	problems = append(problems, checkSelector(&p.Selector, at.Child("selector"))...)
	if len(p.Ratios) == 0 {
		problems = append(problems, field.Required(at.Child("ratios"), `such as {cpu: "2"}`))
	}
	problems = append(problems, p.checkRatios(at)...)
	if !slices.Contains([]Capacity{"", Keep, Raise}, p.Capacity) {
		problems = append(problems, field.NotSupported(at.Child("capacity"), p.Capacity, []Capacity{Keep, Raise}))
	}
	return problems
}

func (p *Pool) checkRatios(at *field.Path) (problems field.ErrorList) {
	resources := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	bound, err := api.ParseRatio(p.MaxRatio)
	if err != nil && p.MaxRatio != "" {
		problems = append(problems, field.Invalid(at.Child("maxRatio"), p.MaxRatio, err.Error()))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Ratios)) {
		ratio, err := api.ParseRatio(p.Ratios[name])
		switch {
		case !slices.Contains(resources, name):
			problems = append(problems, field.NotSupported(at.Child("ratios"), name, resources))
		case err != nil:
			problems = append(problems, field.Invalid(at.Child("ratios").Key(string(name)), p.Ratios[name], err.Error()))
		case p.MaxRatio != "" && ratio.Above(bound):
			problems = append(problems, field.Invalid(at.Child("ratios").Key(string(name)), ratio.String(), "is above maxRatio "+p.MaxRatio))
		}
	}
	return problems
}

func checkSelector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
}

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
