package document

import (
	"encoding/json"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
)

// emit takes one operation of a patch. path is a JSON pointer, good until emit returns; value is what stands there afterwards, nil
// for a removal.
type emit func(op string, path []byte, value *Value)

// Patch is the list of edits as RFC 6902 operations, in an order in which they apply one after the other to the
// document that was sent. No edits, or only edits that cancel out: nil.
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

// PatchJSON is Patch as JSON: the operations' values stand there as they were recorded. No operations: nil.
func (d *Document) PatchJSON() []byte {
	if d.edits == 0 {
		return nil
	}
	b := make([]byte, 0, d.grown) // more than is needed
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

// patch emits the operations that lead from what was sent at v to what stands there now. path is where v is at that moment of
// the patch.
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
		for _, kid := range v.kids {
			if kid.dirty {
				kid.patch(to, append(append(path, '/'), pointerEscape.Replace(kid.name)...))
			}
		}
	}
}

// patchElements goes through an array from the left, so that everything before index i is already as it will be.
func (v *Value) patchElements(to emit, path []byte) {
	i, lastSent := 0, len(v.kids)-1
	for lastSent >= 0 && v.kids[lastSent].sent == nil {
		lastSent--
	}
	path = append(path, '/')
	for n, kid := range v.kids {
		switch {
		case !kid.dirty:
		case n > lastSent:
			kid.patch(to, append(path, '-'))
		default:
			kid.patch(to, strconv.AppendInt(path, int64(i), 10))
		}
		if kid.exists() {
			i++
		}
	}
}

// pointerEscape escapes a key for a JSON pointer (RFC 6901, section 3).
var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// appendTo appends what stands at v now.
func (v *Value) appendTo(b []byte) []byte {
	kind := v.kind()
	if !v.dirty || kind != '{' && kind != '[' {
		return append(b, v.base...)
	}
	b = append(b, kind)
	first := true
	for kid := range existing(v.opened(kind)) {
		if !first {
			b = append(b, ',')
		}
		first = false
		if kind == '{' {
			b = append(append(b, encode(kid.name)...), ':')
		}
		b = kid.appendTo(b)
	}
	return append(b, kind+2) // '{'+2 is '}', '['+2 is ']'
}
