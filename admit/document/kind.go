package document

import "encoding/json"

// Kind is the type of a JSON value: its first byte, or '0' for a number.
type Kind byte

// The kinds of containers.
const (
	Object Kind = '{'
	Array  Kind = '['
)

// Kind returns the kind of the value here; zero if there is none.
func (v *Value) Kind() Kind { return Kind(v.kind()) }

// String returns the kind with its article, such as "an object".
func (k Kind) String() string { return kindNames[byte(k)] }

// CanBe reports whether v is of the given kind, Object or Array, or may become so because it is absent or null. If not,
// it sets the document's error.
func (v *Value) CanBe(kind Kind) bool { return v.is(byte(kind)) }

// Tree returns the value here as encoding/json decodes it, but with numbers as json.Number.
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
