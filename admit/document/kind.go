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
