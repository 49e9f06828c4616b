package document

import (
	stdjson "encoding/json"

	"usher.dev/usher/admit/document/internal/json"
)

// Kind is the type of a JSON value: its first byte, or '0' for a number.
type Kind = json.Kind

// The kinds of values.
const (
	Object = json.Object
	Array  = json.Array
	Text   = json.Text
	Number = json.Number
	True   = json.True
	False  = json.False
	Null   = json.Null
)

// Kind returns the kind of the current value; zero if there is none.
func (v *Value) Kind() Kind {
	switch {
	case v.made != 0 && v.hasChildren():
		return v.made
	case v.base == nil:
		return 0
	}
	return json.KindOf(v.base)
}

// CanBe reports whether v is of the given kind, Object or Array, or may become so because it is absent or null. If not,
// it sets the document's error.
func (v *Value) CanBe(kind Kind) bool {
	actual := v.Kind()
	if actual != kind && actual != 0 && actual != Null {
		v.doc.fail(v, "must be %s, not %s", kind, actual)
		return false
	}
	return true
}

// Tree returns the value here as encoding/json decodes it, but with numbers as json.Number.
func (v *Value) Tree() any {
	switch v.Kind() {
	case 0, 'n':
		return nil
	case '"':
		return v.Text()
	case 't', 'f':
		return v.Kind() == 't'
	case '0':
		return stdjson.Number(v.base)
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
