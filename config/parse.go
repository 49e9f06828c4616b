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
	if err := checkSize(raw); err != nil {
		return nil, []error{err}
	}
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
	shape, text := checkFile(text, schema)
	policy, problems := decode(text, schema)
	if len(shape) > 0 {
		problems = asErrors(shape) // the decoder found the first of them, too
	}
	problems = append(problems, asErrors(withoutDuplicates(shape, policy.check()))...)
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems], fmt.Errorf("and %d more problems", more))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return policy, nil
}

// secondDocument matches a file in which a YAML document ends before the end of the file.
var secondDocument = regexp.MustCompile(`(?m)^[^#\n].*\n(.*\n)*(---|\.\.\.)(\s|$)`)

// checkFile checks the types of all values, and that all fields exist. It returns the file without the values that would
// end its decoding early.
func checkFile(text []byte, schema Schema) (problems field.ErrorList, decodable []byte) {
	var file any
	if err := json.Unmarshal(text, &file); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}, text
	}
	members, ok := file.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(field.NewPath("policy"), abbreviate(file), "must be a mapping of sections")}, text
	}
	rows := schema.rows()
	problems = CheckVersion(members, Kind)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if section, found := rows[name]; found {
			problems = append(problems, checkShape(members[name], section.shape, Most(section.tag), field.NewPath(name))...)
		} else if name != "apiVersion" && name != "kind" {
			problems = append(problems, unknownField(name, append(schema.Names(), "apiVersion", "kind"), nil))
		}
	}
	if len(problems) > 0 {
		if cleaned, err := json.Marshal(file); err == nil {
			text = cleaned
		}
	}
	return problems, text
}

// withoutDuplicates returns the problems of values that could be decoded. What a value lacks is no problem if a part of it could not.
func withoutDuplicates(shape, checks field.ErrorList) (problems field.ErrorList) {
	for _, check := range checks {
		if !slices.ContainsFunc(shape, func(s *field.Error) bool {
			return within(check.Field, s.Field) ||
				check.Type == field.ErrorTypeRequired && s.Type == field.ErrorTypeTypeInvalid && within(s.Field, check.Field)
		}) {
			problems = append(problems, check)
		}
	}
	return problems
}

// within reports whether a path is another one, or a part of it.
func within(path, of string) bool {
	return path == of || strings.HasPrefix(path, of+".") || strings.HasPrefix(path, of+"[")
}

func asErrors(problems field.ErrorList) (all []error) {
	for _, problem := range problems {
		all = append(all, problem)
	}
	return all
}

// decode reads the sections that the schema has.
func decode(text []byte, schema Schema) (policy *Policy, problems []error) {
	policy = &Policy{}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return policy, []error{err}
	}
	for name, section := range schema.rows() {
		if raw, ok := parts[name]; ok && string(raw) != "null" {
			read, wrong := section.read(raw)
			policy.parts, problems = append(policy.parts, read), append(problems, wrong...)
		}
	}
	slices.SortFunc(policy.parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return policy, problems
}

// decodeStrict decodes JSON. Unknown and duplicate fields are problems, too. prefix is the path of the decoded part.
func decodeStrict(text []byte, into any, prefix string) []error {
	problems, err := kjson.UnmarshalStrict(text, into)
	for i, problem := range problems {
		problems[i] = errors.New(strings.Replace(problem.Error(), `field "`, `field "`+prefix, 1))
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Struct != "" {
		wrong.Field = prefix + wrong.Field
	}
	if err != nil {
		problems = append(problems, err)
	}
	return problems
}

// check returns all problems of a decoded policy.
func (p *Policy) check() (problems field.ErrorList) {
	for _, part := range p.parts {
		if part.check != nil {
			problems = append(problems, part.check()...)
		}
	}
	for _, part := range p.parts {
		if part.checkWith != nil {
			problems = append(problems, part.checkWith(p)...)
		}
	}
	return problems
}
