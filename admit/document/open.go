package document

import (
	"slices"

	"usher.dev/usher/admit/document/internal/json"
)

// scanned reports whether base is a container, and makes sure that it is on a tape.
func (v *Value) scanned() bool {
	if v.base == nil || v.base[0] != '{' && v.base[0] != '[' {
		return false
	}
	if v.tape == nil {
		v.tape = json.Own(v.base) // valid, because it was encoded by us
		v.at = 0
	}
	return true
}

// opened returns all children of a container, in order.
func (v *Value) opened(kind Kind) []*Value {
	if !v.CanBe(kind) {
		return nil
	}
	if !v.open {
		v.openAll()
	}
	return v.children
}

// spare is the room for elements that steps append to a list.
const spare = 4

// openAll makes the missing handles of the children.
func (v *Value) openAll() {
	v.open = true
	if !v.scanned() || v.tooMany() {
		return
	}
	early := v.children // allocated by Get, or by insert
	v.children = append(v.doc.memory.lists.empty(v.tape.Size(v.at)+len(early)+spare), early[:v.front]...)
	for i := v.at + 1; i < v.tape.Next(v.at); i = v.tape.Next(i) {
		v.children = append(v.children, v.childAt(i, early))
	}
	for _, child := range early[v.front:] {
		if v.base[0] == '[' || !slices.Contains(v.children, child) {
			v.children = append(v.children, child)
		}
	}
}

// childAt returns the child at an entry of the tape: an existing handle from early, or a new one.
func (v *Value) childAt(at uint32, early []*Value) *Value {
	name := ""
	if v.base[0] == '{' {
		name = v.tape.Key(at)
		for _, child := range early {
			if child.name == name {
				return child
			}
		}
	}
	child := v.newChild(name)
	child.setEntry(at)
	return child
}
