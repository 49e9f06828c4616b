package document

import (
	"fmt"
	"slices"
)

// is reports whether v is, or may become, a container of the given kind: '{' or '['. If not, it sets the document's
// error.
func (v *Value) is(kind byte) bool {
	actual := v.kind()
	if actual != kind && actual != 0 && actual != 'n' {
		v.doc.fail(v, "must be %s, not %s", kindNames[kind], kindNames[actual])
		return false
	}
	return true
}

// scanned reports whether base is a container, and makes sure that it is on a tape.
func (v *Value) scanned() bool {
	if v.base == nil || v.base[0] != '{' && v.base[0] != '[' {
		return false
	}
	if v.tape == nil {
		v.tape = scanOwn(v.base) // valid, because it was encoded by us
		v.at = 0
	}
	return true
}

// opened returns all children of a container, in order.
func (v *Value) opened(kind byte) []*Value {
	if !v.is(kind) {
		return nil
	}
	if !v.open {
		v.openAll()
	}
	return v.children
}

// maxChildren is the maximum number of members or elements of a container that a step can read. No node could run a
// larger list.
const maxChildren = 10_000

// tooMany reports whether a container has more than maxChildren children, and if so sets the document's error.
func (v *Value) tooMany() bool {
	if !v.scanned() || v.tape.size(v.at) <= maxChildren {
		return false
	}
	v.doc.fail(v, "has more than %d parts", maxChildren)
	return true
}

// maxDecoded is the maximum number of values that are decoded together. The Go value of the two bytes {} takes up to
// 700 bytes, so the number of values bounds the memory of a decoding, and not the number of bytes. A pod of 1.5 MiB has
// 40,000 values.
const maxDecoded = 50_000

// Decodable reports whether the value here is small enough to be decoded as a whole: at most 50,000 values, and at most
// 10,000 in any one list or object. If not, it sets the document's error.
func (v *Value) Decodable() bool {
	if !v.scanned() {
		return true
	}
	problem := v.tape.tooLarge(v.at)
	if problem != "" {
		v.doc.fail(v, "%s", problem)
	}
	return problem == ""
}

// SentSize returns the number of members or elements of a container in the document that was sent, without making
// handles; 0 if there is no object or array.
func (d *Document) SentSize(names ...string) int {
	t, at := d.root.tape, d.root.at
	if t == nil {
		return 0 // the root was set by a step
	}
	for _, name := range names {
		found := false
		if t.raw[t.entries[at].start] == '{' {
			at, found = t.member(at, name)
		}
		if !found {
			return 0
		}
	}
	return t.size(at)
}

// tooLarge returns why a container must not be decoded, or "".
func (t *tape) tooLarge(container uint32) string {
	end := t.entries[container].next
	switch all := end - container; {
	case all <= maxChildren:
		return ""
	case all > maxDecoded:
		return fmt.Sprintf("has more than %d values", maxDecoded)
	}
	for i := container; i < end; i++ {
		if c := t.raw[t.entries[i].start]; (c == '{' || c == '[') && t.size(i) > maxChildren {
			return fmt.Sprintf("has more than %d parts in one list or object", maxChildren)
		}
	}
	return ""
}

// spare is the room for elements that steps append to a list.
const spare = 4

// openAll makes the missing handles of the children.
func (v *Value) openAll() {
	v.open = true
	if !v.scanned() || v.tooMany() {
		return
	}
	early := v.children // allocated by Get
	v.children = v.doc.memory.lists.empty(v.tape.size(v.at) + len(early) + spare)
	for i := v.at + 1; i < v.tape.entries[v.at].next; i = v.tape.entries[i].next {
		v.children = append(v.children, v.childAt(i, early))
	}
	for _, child := range early {
		if !slices.Contains(v.children, child) {
			v.children = append(v.children, child)
		}
	}
}

// childAt returns the child at an entry of the tape: an existing handle from early, or a new one.
func (v *Value) childAt(at uint32, early []*Value) *Value {
	name := ""
	if v.base[0] == '{' {
		name = v.tape.keyOf(&v.tape.entries[at])
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
