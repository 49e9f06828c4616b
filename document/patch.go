package document

import (
	"encoding/json"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
)

// emit receives one operation of a patch. path is a JSON pointer, only valid until emit returns; value is the resulting
// value, nil for a removal.
type emit func(op string, path []byte, value *Value)

// Patch returns the edits as RFC 6902 operations, in an order in which they can be applied one after the other to the
// document that was sent. It returns nil if there are no edits, or if they cancel out.
func (d *Document) Patch() (ops []jsonpatch.Operation) {
	d.root.patch(func(op string, path []byte, value *Value) {
		if value == nil {
			ops = append(ops, jsonpatch.NewOperation(op, string(path), nil))
		} else {
			ops = append(ops, jsonpatch.NewOperation(op, string(path), json.RawMessage(value.Bytes())))
		}
	}, nil)
	return ops
}

// PatchJSON returns Patch encoded as JSON, with values as they were recorded; nil if there are no operations.
func (d *Document) PatchJSON() []byte {
	if d.edits == 0 {
		return nil
	}
	b := make([]byte, 0, d.grown) // an upper bound
	d.root.patch(func(op string, path []byte, value *Value) {
		b = append(b, ",{\"op\":\""...)
		b = append(append(b, op...), "\",\"path\":"...)
		b = append(b, encode(string(path))...)
		if value != nil {
			b = value.appendTo(append(b, ",\"value\":"...))
		}
		b = append(b, '}')
	}, nil)
	if len(b) == 0 {
		return nil
	}
	b[0] = '['
	return append(b, ']')
}

// patch emits the operations that turn what was sent at v into its current value. path is the path of v at that point
// of the patch.
func (v *Value) patch(to emit, path []byte) {
	was, is := v.sent != nil, v.exists()
	switch {
	case !was && is:
		to("add", path, v)
	case was && !is:
		to("remove", path, nil)
	case !is || !v.dirty:
	case v.set || v.made != 0:
		if !sameJSON(v.sent, v.Bytes()) {
			to("replace", path, v)
		}
	case v.kind() == '[':
		v.patchElements(to, path)
	default:
		for _, child := range v.children {
			if child.dirty {
				child.patch(to, append(append(path, '/'), pointerEscape.Replace(child.name)...))
			}
		}
	}
}

// patchElements handles the elements of an array from left to right, so that everything before index i is already
// final.
func (v *Value) patchElements(to emit, path []byte) {
	i, lastSent := 0, len(v.children)-1
	for lastSent >= 0 && v.children[lastSent].sent == nil {
		lastSent--
	}
	path = append(path, '/')
	for n, child := range v.children {
		switch {
		case !child.dirty:
		case n > lastSent:
			child.patch(to, append(path, '-'))
		default:
			child.patch(to, strconv.AppendInt(path, int64(i), 10))
		}
		if child.exists() {
			i++
		}
	}
}

// pointerEscape escapes a key for a JSON pointer (RFC 6901, section 3).
var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// appendTo appends the current JSON of v.
func (v *Value) appendTo(b []byte) []byte {
	kind := v.kind()
	if !v.dirty || kind != '{' && kind != '[' {
		return append(b, v.base...)
	}
	b = append(b, kind)
	first := true
	for child := range existing(v.opened(kind)) {
		if !first {
			b = append(b, ',')
		}
		first = false
		if kind == '{' {
			b = append(append(b, encode(child.name)...), ':')
		}
		b = child.appendTo(b)
	}
	return append(b, kind+2) // '{'+2 is '}', '['+2 is ']'
}
