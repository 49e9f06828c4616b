package document

import (
	"encoding/json"
	"errors"
	"iter"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/quantity"
)

// Value is a handle on one place of a document: on what stands there, or on what could stand there. It stays good while
// other places change; it is dead once the place or one of its parents was removed or set as a whole.
type Value struct {
	doc    *Document
	parent *Value
	name   string // its key, when the parent is an object

	sent []byte // its JSON in the document that was sent; nil: it was not there
	base []byte // its JSON now, without the edits beneath it; nil: nothing, or only what was put beneath it
	tape *tape  // where base was scanned; nil if it was not, as it was set by a step
	at   uint32 // base's entry there
	set  bool   // base was set by a step
	made byte   // '{' or '[': an absent or null place that became a container because something was put beneath it

	kids  []*Value // the members or elements with a handle, in no order for an object that is not open
	open  bool     // kids are all there, in order
	dirty bool     // something here or beneath was edited, perhaps undone since
}

// sentAt makes v the handle on a value of the document that was sent.
func (v *Value) sentAt(t *tape, at uint32) {
	v.tape, v.at = t, at
	v.base = t.bytes(at)
	v.sent = v.base
}

// Get is the handle on an object's member, whether it is there or not. A null or absent object has no members; asking
// a member of anything else is the document's error.
func (v *Value) Get(name string) *Value {
	if !v.is('{') {
		return v.newKid(name)
	}
	for _, kid := range v.kids {
		if kid.name == name {
			return kid
		}
	}
	kid := v.newKid(name)
	if !v.open && v.scanned() {
		if at, ok := v.tape.member(v.at, name); ok {
			kid.found(at)
		}
	}
	if v.kids == nil {
		v.kids = make([]*Value, 0, 8)
	}
	v.kids = append(v.kids, kid)
	return kid
}

func (v *Value) newKid(name string) *Value { return v.doc.newValue(v, name) }

// found makes v the handle on a value of its parent's tape.
func (v *Value) found(at uint32) {
	v.sentAt(v.parent.tape, at)
	if v.parent.set {
		v.sent = nil
	}
}

// HasElement reports whether an array has an object whose member key is the string text. Kubernetes lists have such keys: a
// container, a variable or a volume is known by its name.
func (v *Value) HasElement(key, text string) bool {
	if !v.is('[') {
		return false
	}
	if !v.dirty {
		return v.scanned() && v.tape.hasElement(v.at, key, text)
	}
	for e := range v.Elements() {
		if e.kind() == '{' && e.Get(key).kind() == '"' && e.Get(key).Text() == text {
			return true
		}
	}
	return false
}

// At is Get for each name in turn.
func (v *Value) At(names ...string) *Value {
	for _, name := range names {
		v = v.Get(name)
	}
	return v
}

// Elements are the elements of an array in order; none if it is absent or null. Elements may be edited, added and removed
// meanwhile: the iteration goes over those that were there at its start.
func (v *Value) Elements() iter.Seq[*Value] { return existing(v.opened('[')) }

// Members are the members of an object in order, by name; none if it is absent or null.
func (v *Value) Members() iter.Seq2[string, *Value] {
	kids := existing(v.opened('{'))
	return func(yield func(string, *Value) bool) {
		for kid := range kids {
			if !yield(kid.name, kid) {
				return
			}
		}
	}
}

func existing(kids []*Value) iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		for _, kid := range kids {
			if kid.exists() && !yield(kid) {
				return
			}
		}
	}
}

// Err is the error of the document: see Document.Err.
func (v *Value) Err() error { return v.doc.err }

// Exists reports whether something other than null stands here.
func (v *Value) Exists() bool { return v.exists() && v.kind() != 'n' }

// Bytes is what stands here now as JSON; nil if nothing does.
func (v *Value) Bytes() []byte { return v.appendTo(nil) }

// Text is the string that stands here, "" if nothing does. Any other type is the document's error.
func (v *Value) Text() string {
	switch v.kind() {
	case 0, 'n':
		return ""
	case '"':
		return unquote(v.base)
	}
	v.doc.fail(v, "must be a string, not %s", kindNames[v.kind()])
	return ""
}

// As decodes what stands at v by the rules of the API server (case-sensitive names, unknown fields ignored); the zero
// value if nothing does. What does not fit into T is the document's error.
func As[T any](v *Value) T {
	var into T
	if !v.Decodable() {
		return into
	}
	raw := v.Bytes()
	if raw == nil {
		return into
	}
	if quantity.MayBeHostile(raw) {
		if text := quantity.Hostile(v.Tree(), v.place()); text != "" {
			v.doc.fail(v, "has the quantity %.40q, which is more than 64 digits or an exponent of more than two", text)
			return into
		}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &into); err != nil {
		v.doc.fail(v, "%s", DecodeProblem(err))
		var zero T
		return zero
	}
	return into
}

// place is where v stands, for the names that Kubernetes gives to quantities.
func (v *Value) place() quantity.Place {
	at := v.member()
	if at.parent == nil {
		return quantity.Place{}
	}
	return quantity.Place{Parent: at.parent.member().name, Name: at.name}
}

// member is v, or the list of lists that it is an element of.
func (v *Value) member() *Value {
	for v.parent != nil && v.parent.kind() == '[' {
		v = v.parent
	}
	return v
}

// DecodeProblem words a decoder's error without the names of Go types.
func DecodeProblem(err error) string {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return "does not decode: " + err.Error()
	}
	at := ""
	if wrong.Field != "" {
		at = " at " + wrong.Field
	}
	return "has a " + wrong.Value + at + " where the type has something else"
}

// Sub is a document of its own over what stands here as it was sent; nil if nothing does. Edits on the one are not seen
// in the other.
func (v *Value) Sub() *Document {
	if v.sent == nil || v.kind() == 'n' {
		return nil
	}
	if v.tape == nil || v.set { // a step has set something else since
		t, _ := scan(v.sent, nil)
		return wrap(t, 0)
	}
	return wrap(v.tape, v.at)
}

// identifier tells a field's name from a map's key, which a path shows in brackets.
var identifier = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// Path is where v is, as Kubernetes writes field paths, with indices as they are now.
func (v *Value) Path() *field.Path {
	switch p := v.parent; {
	case p == nil:
		return nil
	case p.kind() == '[':
		return p.Path().Index(p.indexOf(v))
	case identifier.MatchString(v.name):
		return p.Path().Child(v.name)
	default:
		return p.Path().Key(v.name)
	}
}

func (v *Value) indexOf(element *Value) int {
	i := 0
	for _, kid := range v.opened('[') {
		if kid == element {
			break
		}
		if kid.exists() {
			i++
		}
	}
	return i
}

var kindNames = map[byte]string{'{': "an object", '[': "an array", '"': "a string", 'n': "null", 't': "a boolean", 'f': "a boolean", '0': "a number"}

// kind is the first byte of what stands here: one of { [ " n t f, or '0' for any number; the zero byte if nothing does.
func (v *Value) kind() byte {
	switch {
	case v.made != 0 && v.hasKids():
		return v.made
	case v.base == nil:
		return 0
	case v.base[0] == '-' || v.base[0] >= '0' && v.base[0] <= '9':
		return '0'
	}
	return v.base[0]
}

func (v *Value) exists() bool { return v.base != nil || v.made != 0 && v.hasKids() }

func (v *Value) hasKids() bool { return slices.ContainsFunc(v.kids, (*Value).exists) }
