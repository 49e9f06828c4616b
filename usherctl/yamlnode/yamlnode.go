// Package yamlnode finds the fields of a YAML document, and their lines.
package yamlnode

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Parse returns the first document of a text; nil if there is none, or it is not YAML.
func Parse(text []byte) *yaml.Node {
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil || len(root.Content) == 0 {
		return nil
	}
	return root.Content[0]
}

// Child returns the key and the value of a member of a mapping, or twice the element of a list with an index; nil if there
// is none.
func Child(of *yaml.Node, part string) (key, value *yaml.Node) {
	switch of.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(of.Content); i += 2 {
			if of.Content[i].Value == part {
				return of.Content[i], of.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if n, err := strconv.Atoi(part); err == nil && n >= 0 && n < len(of.Content) {
			return of.Content[n], of.Content[n]
		}
	case yaml.AliasNode:
		return Child(of.Alias, part)
	}
	return nil, nil
}

// Line returns the line of a field, counted from 1, or of the deepest part of its path that is there.
func Line(root *yaml.Node, path []string) int {
	at, line := root, 1
	for _, part := range path {
		if at == nil {
			break
		}
		var key *yaml.Node
		if key, at = Child(at, part); key != nil {
			line = key.Line
		}
	}
	return line
}
