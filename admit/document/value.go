package document

import (
	"iter"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document/internal/json"
)

// Value is a handle on one place of a document, whether there is a value or not. It remains valid while other places
// change, and becomes invalid when the place or one of its parents is removed or set as a whole.
type Value struct {
	doc    *Document
	parent *Value
	name   string // its key, if the parent is an object

	sent []byte     // its JSON in the document that was sent; nil if it was absent
	base []byte     // its current JSON without the edits of its descendants; nil if absent, or if it only has descendants
	tape *json.Tape // the tape of base; nil if base was set by a step and not yet scanned
	at   uint32     // the entry of base on tape
	set  bool       // base was set by a step
	made Kind       // Object or Array if it was absent or null, and became a container for a descendant

	children []*Value // the children with a handle; if not open, of an object in no particular order, of an array only those prepended and appended
	open     bool     // children is complete and in order
	dirty    bool     // v or a descendant was edited, perhaps undone since
	front    uint32   // how many of children were prepended
}

// sentAt makes v the handle of a value of the document that was sent.
func (v *Value) sentAt(t *json.Tape, at uint32) {
	v.tape, v.at = t, at
	v.base = t.Bytes(at)
	v.sent = v.base
}

// Get returns the handle of an object's member, whether it exists or not. A null or absent object has no members; for
// any other type, Get sets the document's error.
func (v *Value) Get(name string) *Value {
	if !v.CanBe('{') {
		return v.newChild(name)
	}
	for _, child := range v.children {
		if child.name == name {
			return child
		}
	}
	child := v.newChild(name)
	if !v.open && v.scanned() {
		if at, ok := v.tape.Member(v.at, name); ok {
			child.setEntry(at)
		}
	}
	if v.children == nil {
		v.children = v.doc.memory.lists.empty(8)
	}
	v.children = append(v.children, child)
	return child
}

func (v *Value) newChild(name string) *Value { return v.doc.newValue(v, name) }

func (d *Document) newValue(parent *Value, name string) *Value {
	v := d.memory.value()
	v.doc, v.parent, v.name = d, parent, name
	return v
}

// setEntry makes v the handle of an entry of its parent's tape.
func (v *Value) setEntry(at uint32) {
	v.sentAt(v.parent.tape, at)
	if v.parent.set {
		v.sent = nil
	}
}

// HasElement reports whether an array has an object whose member key is the string text. Elements of Kubernetes lists
// are identified by such keys: containers, variables and volumes by their name.
func (v *Value) HasElement(key, text string) bool {
	if !v.CanBe('[') {
		return false
	}
	if (!v.dirty || !v.open) && v.scanned() && v.tape.HasElement(v.at, key, text) {
		return true
	}
	if !v.dirty {
		return false
	}
	for e := range existing(v.children) {
		if e.Kind() == '{' && e.Get(key).Kind() == '"' && e.Get(key).Text() == text {
			return true
		}
	}
	return false
}

// At calls Get for each name in turn.
func (v *Value) At(names ...string) *Value {
	for _, name := range names {
		v = v.Get(name)
	}
	return v
}

// List returns what Elements iterates over.
func (v *Value) List() []*Value {
	all := v.opened('[')
	if !slices.ContainsFunc(all, func(e *Value) bool { return !e.exists() }) {
		return slices.Clip(all)
	}
	return slices.Collect(existing(all))
}

// Elements returns the elements of an array in order; none if it is absent or null. Elements may be edited, added and
// removed during the iteration, which covers those that existed at its start.
func (v *Value) Elements() iter.Seq[*Value] { return existing(v.opened('[')) }

// Members returns the names and values of an object's members in order; none if it is absent or null.
func (v *Value) Members() iter.Seq2[string, *Value] {
	children := v.opened('{')
	return func(yield func(string, *Value) bool) {
		for _, child := range children {
			if child.exists() && !yield(child.name, child) {
				return
			}
		}
	}
}

func existing(children []*Value) iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		for _, child := range children {
			if child.exists() && !yield(child) {
				return
			}
		}
	}
}

// Err returns the document's error; see Document.Err.
func (v *Value) Err() error { return v.doc.err }

// Exists reports whether there is a value here that is not null.
func (v *Value) Exists() bool { return v.exists() && v.Kind() != 'n' }

// Bytes returns the current value as JSON, which must not be changed or kept; nil if there is none.
func (v *Value) Bytes() []byte {
	if v.changedBelow() {
		return v.AppendTo(nil)
	}
	return slices.Clip(v.base)
}

// identifier matches the names of fields; paths show any other key in brackets, as the key of a map.
var identifier = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// Path returns the field path of v, with current indices.
func (v *Value) Path() *field.Path {
	switch p := v.parent; {
	case p == nil:
		return nil
	case p.Kind() == '[':
		return p.Path().Index(p.indexOf(v))
	case identifier.MatchString(v.name):
		return p.Path().Child(v.name)
	default:
		return p.Path().Key(v.name)
	}
}

func (v *Value) indexOf(element *Value) int {
	i := 0
	for _, child := range v.opened('[') {
		if child == element {
			break
		}
		if child.exists() {
			i++
		}
	}
	return i
}

func (v *Value) exists() bool { return v.base != nil || v.made != 0 && v.hasChildren() }

func (v *Value) hasChildren() bool { return slices.ContainsFunc(v.children, (*Value).exists) }

// Kind returns the kind of the current value; zero if there is none.
func (v *Value) Kind() Kind {
	switch {
	case v.made != 0 && v.hasChildren():
		return v.made
	case v.base == nil:
		return 0
	}
	return json.KindOf(v.base)
}

// CanBe reports whether v is of the given kind, Object or Array, or may become so because it is absent or null. If not,
// it sets the document's error.
func (v *Value) CanBe(kind Kind) bool {
	actual := v.Kind()
	if actual != kind && actual != 0 && actual != Null {
		v.doc.fail(v, "must be %s, not %s", kind, actual)
		return false
	}
	return true
}
