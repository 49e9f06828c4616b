package document

import (
	stdjson "encoding/json"
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"

	"usher.dev/usher/admit/document/internal/json"
)

// Patch returns the edits as RFC 6902 operations, in an order in which they can be applied one after the other to the
// document that was sent. It returns nil if there are no edits, or if they cancel out.
func (d *Document) Patch() (ops []jsonpatch.Operation) {
	var decoded []struct {
		Op, Path string
		Value    stdjson.RawMessage
	}
	if patch := d.PatchJSON(); patch != nil {
		_ = stdjson.Unmarshal(patch, &decoded) // valid, because it was encoded by us
	}
	for _, op := range decoded {
		if op.Value == nil {
			ops = append(ops, jsonpatch.NewOperation(op.Op, op.Path, nil))
		} else {
			ops = append(ops, jsonpatch.NewOperation(op.Op, op.Path, op.Value))
		}
	}
	return ops
}

// PatchJSON returns Patch encoded as JSON, with values as they were recorded; nil if there are no operations.
func (d *Document) PatchJSON() []byte {
	if d.edits == 0 {
		return nil
	}
	if patch := d.AppendPatch(make([]byte, 0, d.grown)); len(patch) > 0 {
		return patch
	}
	return nil
}

// AppendPatch appends what PatchJSON returns to b. If there are no operations, it returns b as it is.
func (d *Document) AppendPatch(b []byte) []byte {
	if d.edits == 0 {
		return b
	}
	start := len(b)
	var path [128]byte
	if b = d.root.appendPatch(b, path[:0]); len(b) == start {
		return b
	}
	b[start] = '[' // in place of the comma before the first operation
	return append(b, ']')
}

// appendPatch appends the operations that turn what was sent at v into its current value, each with a comma before it.
// path is the JSON pointer to v at that point of the patch.
func (v *Value) appendPatch(b, path []byte) []byte {
	was, is := v.sent != nil, v.exists()
	switch {
	case !was && is:
		return v.appendOperation(b, "add", path)
	case was && !is:
		return append(appendOperation(b, "remove", path), '}')
	case !is || !v.dirty:
	case v.set || v.made != 0:
		if !json.Same(v.sent, v.Bytes()) {
			return v.appendOperation(b, "replace", path)
		}
	case v.Kind() == '[':
		return v.appendElementPatches(b, path)
	default:
		for _, child := range v.children {
			if child.dirty {
				b = child.appendPatch(b, appendKey(append(path, '/'), child.name))
			}
		}
	}
	return b
}

// appendElementPatches handles the elements of an array from left to right, so that everything before index i is
// already final.
func (v *Value) appendElementPatches(b, path []byte) []byte {
	i, lastSent := 0, len(v.children)-1
	for lastSent >= 0 && v.children[lastSent].sent == nil {
		lastSent--
	}
	path = append(path, '/')
	for n, child := range v.children {
		switch {
		case !child.dirty:
		case n > lastSent && (v.open || n >= int(v.front)):
			b = child.appendPatch(b, append(path, '-'))
		default:
			b = child.appendPatch(b, strconv.AppendInt(path, int64(i), 10))
		}
		if child.exists() {
			i++
		}
	}
	return b
}

// appendOperation appends an operation that results in the current value of v.
func (v *Value) appendOperation(b []byte, op string, path []byte) []byte {
	return append(v.AppendTo(append(appendOperation(b, op, path), `,"value":`...)), '}')
}

// appendOperation appends an operation without its value and its end.
func appendOperation(b []byte, op string, path []byte) []byte {
	b = append(b, `,{"op":"`...)
	b = append(append(b, op...), `","path":`...)
	return AppendText(b, path)
}

// appendKey appends a key as a JSON pointer has it (RFC 6901, section 3).
func appendKey(path []byte, key string) []byte {
	for i := range len(key) {
		switch c := key[i]; c {
		case '~':
			path = append(path, "~0"...)
		case '/':
			path = append(path, "~1"...)
		default:
			path = append(path, c)
		}
	}
	return path
}

// AppendTo appends the current JSON of v, with all edits.
func (v *Value) AppendTo(b []byte) []byte {
	if !v.changedBelow() {
		return append(b, v.base...)
	}
	kind := v.Kind()
	b = append(b, byte(kind))
	first := true
	for _, child := range v.opened(kind) {
		if !child.exists() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		if kind == '{' {
			b = append(AppendText(b, child.name), ':')
		}
		b = child.AppendTo(b)
	}
	return append(b, byte(kind)+2) // '{'+2 is '}', '['+2 is ']'
}

// changedBelow reports whether v is a container with edits in it, so that base is not its current JSON.
func (v *Value) changedBelow() bool {
	kind := v.Kind()
	return v.dirty && (kind == '{' || kind == '[') && slices.ContainsFunc(v.children, func(child *Value) bool { return child.dirty })
}
