package document

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document/internal/json"
)

// Set sets the place to a Go value, encoded as JSON. Missing or null parents are created. Setting an equal value is no
// edit.
func (v *Value) Set(value any) { v.setJSON(encode(value)) }

// SetText is Set for a string.
func (v *Value) SetText(text string) {
	v.setJSON(AppendText(v.doc.memory.texts.empty(len(text)+len(`""`)), text))
}

func (v *Value) setJSON(raw []byte) {
	if v.doc.err != nil || v.exists() && json.Same(v.Bytes(), raw) || !v.grow(len(raw)) || !v.prepareParent() {
		return
	}
	v.saveUndo()
	v.base, v.tape, v.set, v.made, v.open, v.children, v.front = raw, nil, true, 0, false, nil, 0
	v.markDirty()
}

// Remove removes the value; removing an absent one is no edit.
func (v *Value) Remove() {
	if v.doc.err != nil || !v.exists() || !v.grow(0) {
		return
	}
	v.saveUndo()
	v.base, v.tape, v.set, v.made, v.open, v.children, v.front = nil, nil, false, 0, false, nil, 0
	v.markDirty()
}

// Append appends a Go value to the array here, which is created if it is absent or null.
func (v *Value) Append(value any) *Value { return v.insert(nil, encode(value), true) }

// Prepend inserts a Go value at the beginning of the array here, which is created if it is absent or null, after what was
// prepended before. As AppendTexts, it makes no handles of the other elements.
func (v *Value) Prepend(value any) *Value { return v.insert(v, encode(value), false) }

// TextMember is a member of an object whose value is a string.
type TextMember struct{ Key, Text string }

// AppendTexts appends an object to the array here, as Append does. Members whose text is empty are left out. It makes no
// handles of the other elements, which would take five times as much memory as they do.
func (v *Value) AppendTexts(members ...TextMember) *Value {
	return v.insert(nil, v.texts(members), false)
}

// PrependTexts inserts such an object as Prepend does.
func (v *Value) PrependTexts(members ...TextMember) *Value {
	return v.insert(v, v.texts(members), false)
}

func (v *Value) texts(members []TextMember) []byte {
	size := len(`{}`)
	for _, m := range members {
		size += len(m.Key) + len(m.Text) + len(`"":"",`)
	}
	return appendTexts(v.doc.memory.texts.empty(size), members)
}

// InsertBefore inserts a Go value into the array here before one of its elements.
func (v *Value) InsertBefore(element *Value, value any) *Value {
	return v.insert(element, encode(value), true)
}

// insert inserts JSON before an element; before v itself: after what was prepended before; nil: at the end. If it need not
// open a list that was sent, the children of the list are what was prepended and appended, until it is opened.
func (v *Value) insert(before *Value, raw []byte, open bool) *Value {
	child := v.newChild("")
	if v.doc.err != nil || !v.makeContainer('[') {
		return child
	}
	switch {
	case open || v.sent == nil || v.set:
		v.opened('[')
	case !v.open && v.children == nil && !v.tooMany():
		v.children = v.doc.memory.lists.empty(spare)
	}
	if v.doc.err != nil || !v.grow(len(raw)) {
		return child
	}
	v.saveUndo()
	at := len(v.children)
	switch before {
	case nil:
	case v:
		at = min(int(v.front), at)
		v.front++
	default:
		at = max(0, slices.Index(v.children, before))
	}
	if at == len(v.children) {
		v.children = append(v.children, child) // undo restores the old length
	} else { // a new list, because undo restores the old one
		list := append(v.doc.memory.lists.empty(len(v.children)+1), v.children[:at]...)
		v.children = append(append(list, child), v.children[at:]...)
	}
	child.base, child.set = raw, true
	child.markDirty()
	return child
}

// maxPatch is the maximum size in bytes of the patch of one document. What a patch adds is stored, and etcd accepts no
// larger request by default (--max-request-bytes), so the limit refuses nothing that could have been stored.
const maxPatch = 3 << 19

// grow accounts for an edit at v that adds the given number of bytes, and reports whether the patch stays within
// maxPatch; if not, it sets the document's error.
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
		"with this the changes to the object come to more than %d bytes, which is what etcd stores of an object; "+
			"make the object, or what changes it, smaller", maxPatch)}
	return false
}

// prepareParent makes v's parent a container that can hold v, and reports whether it succeeded.
func (v *Value) prepareParent() bool {
	switch p := v.parent; {
	case p == nil:
		return true
	case p.Kind() == '[':
		return true
	default:
		return p.makeContainer('{')
	}
}

// makeContainer makes v a container of the given kind if it is absent or null, and reports whether it is one now.
func (v *Value) makeContainer(kind Kind) bool {
	if !v.CanBe(kind) || v.doc.err != nil {
		return false
	}
	if is := v.Kind(); is == kind {
		return true
	}
	if !v.prepareParent() {
		return false
	}
	v.saveUndo()
	v.made = kind
	return true
}

// saveUndo saves the state of v for Try.
func (v *Value) saveUndo() {
	if v.doc.trying {
		v.doc.memory.undo = append(v.doc.memory.undo, saved{v, *v})
	}
}

// markDirty marks v and its parents as edited, and counts the edit.
func (v *Value) markDirty() {
	v.doc.edits++
	for at := v; at != nil; at = at.parent {
		at.dirty = true
	}
}
