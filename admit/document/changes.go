package document

import (
	"bytes"
	"slices"

	"usher.dev/usher/admit/document/internal/json"
)

// Change is a place whose value a Try has changed. Was and Is are its JSON before and now, nil if it is absent.
type Change struct {
	Path    string
	Was, Is []byte
}

// Changes returns what the edits of the running Try have changed so far, in the order of the edits. An edit in a value
// that was added or replaced as a whole is part of that change, and edits that cancel out are none.
func (d *Document) Changes() (all []Change) {
	seen, whole := map[*Value]bool{}, map[*Value]bool{}
	for i := range d.memory.undo {
		v, was := d.memory.undo[i].at, &d.memory.undo[i].was
		if seen[v] || !v.attached() || v.within(whole) {
			continue
		}
		seen[v] = true
		if !bytes.Equal(v.base, was.base) {
			whole[v] = true
			all = append(all, v.changeFrom(was.Bytes()))
			continue
		}
		for _, element := range v.inserted(was) {
			whole[element] = true
			all = append(all, element.changeFrom(nil))
		}
	}
	return slices.DeleteFunc(all, func(c Change) bool { return c.Was != nil && c.Is != nil && json.Same(c.Was, c.Is) })
}

func (v *Value) changeFrom(was []byte) Change { return Change{v.shownPath().String(), was, v.Bytes()} }

// inserted returns the elements of an array that it did not have in an earlier state.
func (v *Value) inserted(was *Value) (all []*Value) {
	if v.Kind() != '[' {
		return nil
	}
	for _, element := range v.children {
		if element.exists() && (v.set || element.sent == nil) && !slices.Contains(was.children, element) {
			all = append(all, element)
		}
	}
	return all
}

// attached reports whether no parent of v was replaced or removed as a whole.
func (v *Value) attached() bool {
	return v.parent == nil || slices.Contains(v.parent.children, v) && v.parent.attached()
}

// within reports whether a parent of v is in a set.
func (v *Value) within(set map[*Value]bool) bool {
	return v.parent != nil && (set[v.parent] || v.parent.within(set))
}
