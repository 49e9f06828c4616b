package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/yamlnode"
)

// decodeExpect reads the mapping expect.
func (c *Case) decodeExpect(raw json.RawMessage) (problems []error) {
	values, known := map[string]*json.RawMessage{}, map[string]any{}
	for _, key := range members {
		values[key] = new(json.RawMessage)
		known[key] = values[key]
	}
	problems = decodeMembers("expect", mappingOf(raw), known)
	for _, key := range members {
		if value := *values[key]; len(value) > 0 {
			e, err := decodeExpectation(key, value)
			if err != nil {
				problems = append(problems, fmt.Errorf("expect.%s: %w", key, err))
			}
			c.expect[key] = e
		}
	}
	return problems
}

// decodeExpectation reads one member of expect.
func decodeExpectation(key string, raw json.RawMessage) (e expectation, err error) {
	if e.value, err = requests.DecodeJSON(raw); err != nil {
		return e, err
	}
	if inner, partial := e.value.(map[string]any); partial && len(inner) == 1 {
		if value, found := inner["contains"]; found && key != "steps" {
			e.value, e.contains = value, true
		}
	}
	if e.contains && slices.Contains([]string{"verdict", "code", "reason"}, key) {
		return e, errors.New("is compared whole; contains is for message, causes, warnings, patch and after")
	}
	if name, ok := e.value.(string); ok && !e.contains && (key == "patch" || key == "after") && name != "" {
		return expectation{file: name}, nil
	}
	return e, e.checkShape(key)
}

// checkShape checks that a member has the type that it is compared as.
func (e *expectation) checkShape(key string) error {
	_, isText := e.value.(string)
	list, isList := e.value.([]any)
	mapping, isMapping := e.value.(map[string]any)
	_, isNumber := e.value.(json.Number)
	switch {
	case key == "verdict" && (!isText || !slices.Contains(verdicts, e.value.(string))):
		return fmt.Errorf("must be one of %s", strings.Join(verdicts, ", "))
	case key == "code" && !isNumber:
		return errors.New("must be a number, such as 403")
	case key == "reason" && !isText, key == "message" && !e.contains && !isText:
		return errors.New("must be a text")
	case key == "message" && e.contains && !isText && !(isList && allTexts(list)):
		return errors.New("contains a text, or a list of texts")
	case key == "warnings" && (!isList || !allTexts(list)):
		return errors.New("must be a list of texts")
	case key == "causes" && !isList:
		return errors.New("must be a list of mappings with reason, field and message")
	case key == "patch" && !isList:
		return errors.New("must be a list of JSON patch operations, or the name of a file")
	case key == "after" && !isMapping:
		return errors.New("must be an object, or the name of a file")
	case key == "steps" && !isMapping:
		return errors.New("must be a mapping of steps to " + strings.Join(outcomes, ", "))
	case e.contains && key != "after" && (e.value == "" || list != nil && len(list) == 0 || slices.Contains(list, any(""))):
		return errors.New("contains nothing: it would always be met")
	case e.contains && key == "after" && len(mapping) == 0:
		return errors.New("contains nothing: it would always be met")
	case e.contains && key == "after" && vacuous(e.value) != nil:
		return fmt.Errorf("contains%s is empty: it would always be met", strings.Join(append([]string{""}, vacuous(e.value)...), "."))
	case key == "steps":
		return checkOutcomes(mapping)
	}
	return nil
}

// vacuous returns the path of an empty mapping or list in a value, which every mapping or list contains; nil if there is none.
func vacuous(value any) []string {
	if value != nil && isNothing(value) {
		return []string{}
	}
	for _, child := range childrenOf(value, nil) {
		if within := vacuous(child.value); within != nil {
			return append([]string{fmt.Sprint(child.path...)}, within...)
		}
	}
	return nil
}

func allTexts(list []any) bool {
	return !slices.ContainsFunc(list, func(e any) bool { _, ok := e.(string); return !ok })
}

// checkOutcomes checks the outcomes of steps. YAML reads the word off, without quotes, as false.
func checkOutcomes(steps map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		if steps[name] == false {
			steps[name] = "off"
		}
		if text, ok := steps[name].(string); !ok || !slices.Contains(outcomes, text) {
			return fmt.Errorf("%s must be one of %s", name, strings.Join(outcomes, ", "))
		}
	}
	return nil
}

// findLines finds the lines of the members of expect. They keep the document's line if YAML cannot say.
func (c *Case) findLines(d manifest.Document) {
	for key, e := range c.expect {
		e.line = d.Line
		c.expect[key] = e
	}
	root := yamlnode.Parse(d.Raw)
	if root == nil {
		return
	}
	key, value := yamlnode.Child(root, "expect")
	if key == nil {
		return
	}
	c.line = d.Line + key.Line - 1
	for i := 0; i+1 < len(value.Content); i += 2 {
		name := value.Content[i]
		if e, found := c.expect[name.Value]; found {
			e.line = d.Line + name.Line - 1
			c.expect[name.Value] = e
		}
	}
}
