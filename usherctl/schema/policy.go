package schema

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/config"
)

// CaseKind is the kind of a file of cases.
const CaseKind = "Case"

// Policy returns the schema of the policy file. example is a policy whose values are shown as examples.
func Policy(sections config.Schema, words Words, example []byte) *Node {
	g := &generator{words: words, definitions: map[string]*Node{}}
	root := g.document("the policy of usher", config.Kind)
	for _, name := range sections.Names() {
		root.add(name, g.of(sections.Type(name), sections.Tag(name)))
	}
	var shown any
	if yaml.Unmarshal(example, &shown) == nil {
		root.show(shown)
	}
	root.Definitions = g.definitions
	return root
}

// Case returns the schema of a file of cases. file is the type of a case, parts are the types of members that are decoded
// later, and shared are the keys that a document with defaults may have.
func Case(file reflect.Type, parts map[string]reflect.Type, shared []string, words Words) *Node {
	g := &generator{words: words, definitions: map[string]*Node{}}
	root := g.document("a case of usherctl test", CaseKind)
	g.addFields(root, file, nil)
	for name, part := range parts {
		described := root.Properties[name]
		root.Properties[name] = g.plain(part)
		root.Properties[name].Description = described.Description
	}
	defaults := &Node{Type: "object", Additional: false,
		Description: "what holds for the cases after it in the file that do not say otherwise; a document of its own"}
	for _, name := range shared {
		defaults.add(name, root.Properties[name])
	}
	root.add("defaults", defaults)
	either := []*Node{{Required: []string{"manifest"}}, {Required: []string{"review"}}}
	root.If, root.Then = &Node{Required: []string{"defaults"}}, &Node{PropertyNames: &Node{Enum: []any{"apiVersion", "kind", "defaults"}}}
	root.Else = &Node{Required: root.Required, AnyOf: either}
	root.Required = nil
	return root
}

// document returns the node of a file of a kind, with its version.
func (g *generator) document(title, kind string) *Node {
	root := &Node{Schema: Draft, Title: title, Type: "object", Additional: false}
	root.add("apiVersion", &Node{Enum: []any{config.APIVersion}, Description: "the version of the format", Otherwise: config.APIVersion})
	root.add("kind", &Node{Enum: []any{kind}, Description: "what the file is", Otherwise: kind})
	return root
}

// show adds the first value of each field in an example to the nodes of the fields that are texts, numbers, or lists of them.
func (n *Node) show(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if child := n.Properties[key]; child != nil && n.Each == nil {
				child.show(value[key])
			}
		}
	case []any:
		if n.Items != nil && n.Items.Properties != nil {
			for _, element := range value {
				n.Items.show(element)
			}
			return
		}
	}
	if len(n.Examples) == 0 && (n.Properties == nil || n.Each != nil) && n.Ref == "" && n.Type != "boolean" && !isLarge(value) {
		n.Examples = []any{value}
	}
}

// isLarge reports whether a value is no text or number, nor a small mapping or list of them.
func isLarge(value any) bool {
	text, err := yaml.Marshal(value)
	return err != nil || strings.Count(string(text), "\n") > 3 || reflect.ValueOf(value).Kind() == reflect.Invalid
}
