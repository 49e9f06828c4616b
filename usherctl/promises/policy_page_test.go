package promises

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/config"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/schema"
)

// generatedBelow stands in docs/policy.md before what is generated.
const generatedBelow = "<!-- `make golden` writes what follows, from the types of the sections -->\n"

// TestGoldenPolicyPage: docs/policy.md has every field of the policy file.
func TestGoldenPolicyPage(t *testing.T) {
	const file = "docs/policy.md"
	text, _, found := strings.Cut(harness.ReadFile(t, file), generatedBelow)
	if !found {
		t.Fatalf("%s lacks the line %s", file, generatedBelow)
	}
	p := policyPage{t: t, schema: routes.Suites().Schema(), sample: harness.ReadFile(t, "samples/policy.yaml"), seen: map[reflect.Type]string{}}
	root := policySchema()
	for _, name := range p.schema.Names() {
		p.section(name, root.Properties[name])
	}
	harness.CompareGolden(t, file, text+generatedBelow+p.out.String())
}

// policyPage writes the reference of the policy file.
type policyPage struct {
	t      *testing.T
	schema config.Schema
	sample string // the policy with every field
	seen   map[reflect.Type]string
	out    bytes.Buffer
	errors []string // of the section
}

func (p *policyPage) section(name string, n *schema.Node) {
	fmt.Fprintf(&p.out, "\n## %s\n\n%s.", name, sentence(n.Description))
	if steps := p.steps(name); len(steps) > 0 {
		fmt.Fprintf(&p.out, " Steps: `%s`.", strings.Join(steps, "`, `"))
	}
	fmt.Fprintf(&p.out, " It is a %s.\n", typeOf(n))
	p.errors = nil
	p.breakField(name, n, false)
	if rows := p.rows(n, "", name); rows != "" {
		fmt.Fprintf(&p.out, "\n| field | what it is | type | default | example |\n|---|---|---|---|---|\n%s", rows)
	}
	if len(p.errors) > 0 {
		fmt.Fprintf(&p.out, "\nErrors look like these:\n\n    %s\n", strings.Join(p.errors, "\n    "))
	}
}

// steps returns the steps that obey a section.
func (p *policyPage) steps(section string) (names []string) {
	for _, r := range routes.Suites().Table(suite.NoPolicy, gate.Defaults(routes.Suites().Gates())) {
		for _, s := range r.Chain.Steps() {
			if s.SectionName() == section && !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// rows returns the rows of the fields in a value: below is its path in the section, at its path in the file.
func (p *policyPage) rows(n *schema.Node, below, at string) (rows string) {
	if n.Items != nil {
		return p.rows(n.Items, below+"[]", at+"[]")
	}
	if n.Properties == nil || n.Each != nil {
		return ""
	}
	if before := p.seen[n.Kind]; before != "" {
		return fmt.Sprintf("| `%s.…` | as those of `%s` | | | |\n", strings.TrimPrefix(below, "[]."), before)
	}
	p.seen[n.Kind] = at
	for _, name := range n.Fields {
		child, path := n.Properties[name], strings.TrimPrefix(strings.TrimPrefix(below, "[]")+"."+name, ".")
		required := slices.Contains(n.Required, name)
		otherwise := child.Otherwise
		if required {
			otherwise = "**required**"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", path, cell(child.Description), cell(typeOf(child)), cell(otherwise), cell(example(child)))
		p.breakField(at+"."+name, child, required)
		rows += p.rows(child, below+"."+name, at+"."+name)
	}
	return rows
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func example(n *schema.Node) string {
	if len(n.Examples) == 0 {
		return ""
	}
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	if to.Encode(n.Examples[0]) != nil || text.Len() > 70 {
		return ""
	}
	return "`" + strings.TrimSpace(text.String()) + "`"
}

// typeOf says what a value must be.
func typeOf(n *schema.Node) string {
	switch {
	case n.Title != "":
		return "`" + n.Title + "`"
	case n.Ref != "":
		return "[" + path.Ext(n.Ref)[1:] + "](https://kubernetes.io/docs/reference/kubernetes-api/)"
	case n.Word != "" && n.Each == nil:
		return "name of a " + n.Word
	case len(n.Enum) > 0:
		return choice(n.Enum)
	case n.Items != nil:
		return "list of " + plural(n.Items) + limits(n) + oneOf(n.Items)
	case n.Each != nil:
		return "mapping of " + keysOf(n) + " to: " + typeOf(n.Each) + limits(n)
	}
	words := map[any]string{"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "object": "mapping"}
	is := words[n.Type]
	if n.PatternError != "" && n.Pattern != `\S` && n.Pattern != `.` {
		is = "text, " + strings.TrimPrefix(n.PatternError, "must be ")
	}
	return is + limits(n) + oneOf(n)
}

func keysOf(n *schema.Node) string {
	switch {
	case n.Word != "":
		return "names of " + n.Word + "s"
	case n.PropertyNames != nil:
		return "texts (" + strings.TrimPrefix(n.PropertyNames.PatternError, "must be ") + ")"
	case n.Properties != nil:
		return "`" + strings.Join(n.Fields, "`, `") + "`"
	}
	return "texts"
}

func plural(n *schema.Node) string {
	switch text, isText := strings.CutPrefix(typeOf(n), "text"); {
	case n.Type == "object" && n.Each == nil:
		return "mappings"
	case n.Word != "":
		return "names of " + n.Word + "s"
	case isText:
		return "texts" + text
	}
	return typeOf(n)
}

func choice(values []any) string {
	var words []string
	for _, value := range values {
		if text, isText := value.(string); isText {
			words = append(words, "`"+text+"`")
		}
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " or " + words[last]
	}
	return words[0]
}

// limits says what the bounds of a value are.
func limits(n *schema.Node) (text string) {
	switch {
	case n.Minimum != "" && n.Maximum != "":
		text += ", " + n.Minimum.String() + " to " + n.Maximum.String()
	case n.Minimum != "":
		text += ", at least " + n.Minimum.String()
	}
	if n.MaxLength > 0 {
		text += fmt.Sprintf(", at most %d characters", n.MaxLength)
	}
	if n.MinItems+n.MinProperties > 0 {
		text += fmt.Sprintf(", at least %d", n.MinItems+n.MinProperties)
	}
	if n.MaxItems+n.MaxProperties > 0 {
		text += fmt.Sprintf(", at most %d elements", n.MaxItems+n.MaxProperties)
	}
	return text
}

// oneOf says which fields of a mapping are needed, if one of several is.
func oneOf(n *schema.Node) string {
	var groups []any
	for _, group := range n.AnyOf {
		groups = append(groups, strings.Join(group.Required, "` and `"))
	}
	if len(groups) == 0 {
		return ""
	}
	return " with " + choice(groups)
}

var index = regexp.MustCompile(`\[\d+\]`)

// breakField adds the error of a field, in the sample, that has a wrong value. Errors of types alone are all alike.
func (p *policyPage) breakField(at string, n *schema.Node, required bool) {
	for _, wrong := range wrongValues(n) {
		if p.breakWith(at, func(place place) { place.set(wrong) }) {
			return
		}
	}
	if required {
		p.breakWith(at, func(place place) { place.drop() })
	}
}

// wrongValues returns values that break a rule of a node.
func wrongValues(n *schema.Node) (wrong []any) {
	switch {
	case n.Items != nil && n.Items.Properties == nil:
		for _, value := range wrongValues(n.Items) {
			wrong = append(wrong, []any{value})
		}
	case n.Each != nil && n.Properties != nil:
		for _, value := range wrongValues(n.Each) {
			wrong = append(wrong, map[string]any{n.Fields[0]: value})
		}
	case n.Maximum != "":
		most, _ := n.Maximum.Int64()
		wrong = append(wrong, most+1)
	case n.Minimum != "":
		wrong = append(wrong, 0)
	case len(n.Enum) > 0 || n.Title != "":
		wrong = append(wrong, "other")
	case n.Pattern != "" && n.Pattern != `\S` && n.Pattern != `.`:
		wrong = append(wrong, "not valid!", "*", "*/not valid!")
	}
	return wrong
}

// breakWith changes the first place of a field in the sample, and adds the error about it.
func (p *policyPage) breakWith(at string, change func(place)) bool {
	var document any
	if err := yaml.Unmarshal([]byte(p.sample), &document); err != nil {
		p.t.Fatal(err)
	}
	for _, place := range places(nil, place{value: document}) {
		path := strings.TrimPrefix(place.path, ".")
		if index.ReplaceAllString(path, "[]") != at {
			continue
		}
		change(place)
		_, problems := config.Parse(asJSON(document), p.schema)
		for _, problem := range problems {
			text, _, _ := strings.Cut(problem.Error(), " (e.g. ") // and the rest is an expression
			if strings.HasPrefix(text, path) {
				p.errors = append(p.errors, text)
				return true
			}
		}
		return false
	}
	return false
}
