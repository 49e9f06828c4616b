package document

import (
	"encoding/json"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
)

// appendPatch appends the operations that lead from what was sent at v to what stands there now. path is where v is at
// that moment of the patch, as a JSON pointer.
func (v *Value) appendPatch(ops []jsonpatch.Operation, path string) []jsonpatch.Operation {
	was, is := v.sent != nil, v.exists()
	switch {
	case !was && is:
		return append(ops, v.operation("add", path))
	case was && !is:
		return append(ops, jsonpatch.NewOperation("remove", path, nil))
	case !is || !v.dirty:
		return ops
	case v.set || v.made != 0:
		if sameJSON(v.sent, v.Bytes()) {
			return ops
		}
		return append(ops, v.operation("replace", path))
	case v.kind() == '[':
		return v.appendElements(ops, path)
	}
	for _, kid := range v.kids {
		if kid.dirty {
			ops = kid.appendPatch(ops, path+"/"+pointerEscape.Replace(kid.name))
		}
	}
	return ops
}

// appendElements goes through an array from the left, so that everything before index i is already as it will be.
func (v *Value) appendElements(ops []jsonpatch.Operation, path string) []jsonpatch.Operation {
	i := 0
	for n, kid := range v.kids {
		switch {
		case !kid.dirty:
		case kid.sent == nil && !anySent(v.kids[n:]):
			ops = kid.appendPatch(ops, path+"/-")
		default:
			ops = kid.appendPatch(ops, path+"/"+strconv.Itoa(i))
		}
		if kid.exists() {
			i++
		}
	}
	return ops
}

func anySent(kids []*Value) bool {
	for _, kid := range kids {
		if kid.sent != nil {
			return true
		}
	}
	return false
}

func (v *Value) operation(op, path string) jsonpatch.Operation {
	return jsonpatch.NewOperation(op, path, json.RawMessage(v.Bytes()))
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
