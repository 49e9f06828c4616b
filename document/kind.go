package document

import "encoding/json"

// Kind is what a JSON value is.
type Kind byte

// The kinds that hold others.
const (
	Object Kind = '{'
	Array  Kind = '['
)

// Kind is what stands here; zero if nothing does.
func (v *Value) Kind() Kind { return Kind(v.kind()) }

// String is "an object", "null" and so on.
func (k Kind) String() string { return kindNames[byte(k)] }

// CanBe reports whether v is of the kind, Object or Array, or may become so, as it is absent or null. Anything else is the document's
// error.
func (v *Value) CanBe(kind Kind) bool { return v.is(byte(kind)) }

// Tree is what stands here as encoding/json decodes it, but with numbers as they are written.
func (v *Value) Tree() any {
	switch v.kind() {
	case 0, 'n':
		return nil
	case '"':
		return v.Text()
	case 't', 'f':
		return v.kind() == 't'
	case '0':
		return json.Number(v.base)
	case '[':
		list := []any{}
		for element := range v.Elements() {
			list = append(list, element.Tree())
		}
		return list
	}
	tree := map[string]any{}
	for name, member := range v.Members() {
		tree[name] = member.Tree()
	}
	return tree
}
