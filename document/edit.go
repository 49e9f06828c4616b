package document

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Set puts a Go value here, as JSON, in place of whatever stands here. Missing or null parents are made. Setting what is
// there already is no edit.
func (v *Value) Set(value any) {
	raw := encode(value)
	if v.doc.err != nil || v.exists() && sameJSON(v.Bytes(), raw) || !v.grow(len(raw)) || !v.ready() {
		return
	}
	v.remember()
	v.base, v.tape, v.set, v.made, v.open, v.kids = raw, nil, true, 0, false, nil
	v.touch()
}

// Remove takes away what stands here; nothing there is no edit.
func (v *Value) Remove() {
	if v.doc.err != nil || !v.exists() || !v.grow(0) {
		return
	}
	v.remember()
	v.base, v.tape, v.set, v.made, v.open, v.kids = nil, nil, false, 0, false, nil
	v.touch()
}

// Append puts a Go value at the end of the array here, which is made if it is absent or null.
func (v *Value) Append(value any) *Value { return v.insert(func() int { return len(v.kids) }, value) }

// InsertBefore puts a Go value into the array here before one of its elements.
func (v *Value) InsertBefore(element *Value, value any) *Value {
	return v.insert(func() int { return max(0, slices.Index(v.kids, element)) }, value)
}

func (v *Value) insert(at func() int, value any) *Value {
	kid := v.newKid("")
	raw := encode(value)
	if v.doc.err != nil || !v.become('[') {
		return kid
	}
	if v.opened('['); v.doc.err != nil || !v.grow(len(raw)) {
		return kid
	}
	v.remember()
	v.kids = slices.Insert(slices.Clone(v.kids), at(), kid) // a clone: undo restores the old slice
	kid.base, kid.set = raw, true
	kid.touch()
	return kid
}

// maxPatch is how many bytes of a patch the edits of one document may come to. What a patch brings is stored, and etcd takes no
// more than this in one request, unless it is told to (--max-request-bytes). So nothing is lost that could have been stored.
const maxPatch = 3 << 19

// grow counts an edit at v that brings so many bytes, and reports whether there is room for it in the patch; if not, that is the
// document's error.
func (v *Value) grow(bytes int) bool {
	const operation = len(`{"op":"replace","path":"","value":},`)
	bytes += operation
	for at := v; at.parent != nil; at = at.parent {
		bytes += len(at.name) + len(`/`) + len(`[0]`)
	}
	if v.doc.grown += bytes; v.doc.grown <= maxPatch {
		return true
	}
	v.doc.err = &field.Error{Type: field.ErrorTypeTooLong, Field: v.shownPath().String(), BadValue: field.OmitValueType{}, Detail: fmt.Sprintf(
		"with this the changes to the object come to more than %d bytes, which is what etcd stores of an object; make the object, or what changes it, smaller", maxPatch)}
	return false
}

// ready makes v's parent able to hold it.
func (v *Value) ready() bool {
	switch p := v.parent; {
	case p == nil:
		return true
	case p.kind() == '[':
		return true
	default:
		return p.become('{')
	}
}

// become makes v the container that the write beneath it needs.
func (v *Value) become(kind byte) bool {
	if !v.is(kind) || v.doc.err != nil {
		return false
	}
	if is := v.kind(); is == kind {
		return true
	}
	if !v.ready() {
		return false
	}
	v.remember()
	v.made = kind
	return true
}

// remember notes how v was, for Try.
func (v *Value) remember() {
	if v.doc.trying {
		old := *v
		v.doc.undo = append(v.doc.undo, func() {
			*v = old
			v.dirty = true
		})
	}
}

// touch marks v and its parents as edited and counts the edit.
func (v *Value) touch() {
	v.doc.edits++
	for at := v; at != nil; at = at.parent {
		at.dirty = true
	}
}

// encode gives the JSON of a Go value that a step sets. Such values are Kubernetes types and plain data: one that does
// not encode is a mistake in the step.
func encode(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("document: a step set a value that has no JSON: %v", err))
	}
	return raw
}
