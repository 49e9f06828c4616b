package explain

import (
	"cmp"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"usher.dev/usher/usherctl/yamlnode"
)

// PolicyLine returns the line of a policy file, counted from 1, where a section begins, or the name of the entry of the
// section that a text names. entry is that name, or "". Zero: the file does not have the section.
func PolicyLine(policy []byte, section, text string) (line int, entry string) {
	root := yamlnode.Parse(policy)
	if root == nil {
		return 0, ""
	}
	key, value := yamlnode.Child(root, section)
	if key == nil {
		return 0, ""
	}
	if name := namedEntry(value, text); name != nil {
		return name.Line, name.Value
	}
	return key.Line, ""
}

// RuleIn matches the names of entries of the policy in the texts of steps.
var RuleIn = regexp.MustCompile(`\((rule [^()]+)\)|\b(rule [^:]+): |\b(restriction .+) of the policy`)

// ruleNamed returns the name of the entry of the policy that a text of a step is about, or "".
func ruleNamed(text string) string {
	found := RuleIn.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	_, name, _ := strings.Cut(cmp.Or(found[1:]...), " ")
	return name
}

// entryNames returns the names of the entries of a section.
func entryNames(policy []byte, section string) (names []string) {
	_, value := yamlnode.Child(yamlnode.Parse(policy), section)
	if value == nil || value.Kind != yaml.SequenceNode {
		return nil
	}
	for _, entry := range value.Content {
		if _, name := yamlnode.Child(entry, "name"); name != nil {
			names = append(names, name.Value)
		}
	}
	return names
}

// namedEntry returns the first name of an entry below a value that a text has as a word of its own; nil if there is none.
func namedEntry(value *yaml.Node, text string) *yaml.Node {
	for i, below := range value.Content {
		isName := value.Kind == yaml.MappingNode && i%2 == 1 && value.Content[i-1].Value == "name"
		if isName && namesEntry(text, below.Value) {
			return below
		}
		if found := namedEntry(below, text); found != nil {
			return found
		}
	}
	return nil
}

// namesEntry reports whether a text has a name as a word of its own.
func namesEntry(text, name string) bool {
	return name != "" && regexp.MustCompile(`(?:^|[\s"(])`+regexp.QuoteMeta(name)+`(?:$|[\s":;,)])`).MatchString(text)
}
