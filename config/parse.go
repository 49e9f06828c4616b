package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Parse reads a policy file, YAML or JSON. All problems are returned at once, each with its path; then the policy is
// nil.
func Parse(raw []byte, schema Schema) (*Policy, []error) {
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
	policy, problems := decode(text, schema.Sections)
	for _, problem := range policy.check(schema.Steps) {
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return policy, nil
}

// secondDocument matches a file in which a YAML document ends before the end of the file.
var secondDocument = regexp.MustCompile(`(?m)^[^#\n].*\n(.*\n)*(---|\.\.\.)(\s|$)`)

// decode reads the core's sections and those of suites.
func decode(text []byte, sections map[string]func() Section) (policy *Policy, problems []error) {
	policy = &Policy{others: map[string]Section{}}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err == nil {
		for _, name := range slices.Sorted(maps.Keys(sections)) {
			if part, ok := parts[name]; ok && string(part) != "null" {
				policy.others[name] = sections[name]()
				problems = append(problems, decodeStrict(part, policy.others[name], name+".")...)
			}
			delete(parts, name)
		}
		if text, err = json.Marshal(parts); err != nil {
			return policy, append(problems, err)
		}
	}
	return policy, append(decodeStrict(text, policy, ""), problems...)
}

// decodeStrict decodes JSON. Unknown and duplicate fields are problems, too. prefix is the path of the decoded part.
func decodeStrict(text []byte, into any, prefix string) []error {
	problems, err := kjson.UnmarshalStrict(text, into)
	for i, problem := range problems {
		problems[i] = errors.New(strings.Replace(problem.Error(), `field "`, `field "`+prefix, 1))
	}
	if err != nil {
		problems = append(problems, err)
	}
	return problems
}

// check returns all problems of a decoded policy.
func (p *Policy) check(steps []string) (problems field.ErrorList) {
	all := p.sections()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		problems = append(problems, all[name].Check(field.NewPath(name))...)
	}
	return append(problems, checkModes(p.Modes, steps, field.NewPath("modes"))...)
}
