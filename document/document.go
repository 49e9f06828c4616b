// Package document holds the object under review as the bytes that were sent.
//
// A step reads parts of the object through handles (Value) and records edits on the same handles. The patch is the list
// of those edits, never a diff of two encodings: it touches only what a step changed, applies to the document that was
// sent, and cannot move or remove a field that our Go types do not know.
package document

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Document is one JSON document and the edits recorded on it. It is not safe for concurrent use.
type Document struct {
	root   *Value
	tape   *tape   // given back by Release; nil in a Sub, which looks at another's
	slabs  []*slab // of the handles, which are handed out by newValue
	used   int     // handles of the last slab that were handed out
	err    error
	edits  int
	grown  int // what the edits may take in the patch, in bytes: see grow
	trying bool
	undo   []func()
}

// Parse checks raw to be one valid JSON value and wraps it. It refuses what a reader and the API server could
// understand differently: duplicate keys, invalid UTF-8, anything after the value. The document keeps raw: the caller
// must not change it while the document is in use.
func Parse(raw []byte) (*Document, error) { return parseUpTo(maxValues, raw) }

func parseUpTo(limit int, raw []byte) (*Document, error) {
	entries := tapes.Get().(*[]entry)
	scanned, err := scanUpTo(limit, raw, *entries)
	if err != nil {
		tapes.Put(entries)
		return nil, err
	}
	d := wrap(scanned, 0)
	d.tape = scanned
	return d, nil
}

// wrap makes a document of one value of a tape.
func wrap(t *tape, at uint32) *Document {
	d := &Document{}
	d.root = d.newValue(nil, "")
	d.root.sentAt(t, at)
	return d
}

// Release gives back what the document holds. No handle on it may be used afterwards, and no Sub of it; a Sub is released
// before. A document that is not released is left to the garbage collector.
func (d *Document) Release() {
	if d.tape != nil && cap(d.tape.entries) <= maxKept {
		entries := d.tape.entries
		tapes.Put(&entries)
	}
	for _, s := range d.slabs {
		*s = slab{}
		slabs.Put(s)
	}
	*d = Document{}
}

// slab holds handles, so that many come from one allocation.
type slab [32]Value

// slabs keeps those of documents that were released, all zero.
var slabs = sync.Pool{New: func() any { return new(slab) }}

func (d *Document) newValue(parent *Value, name string) *Value {
	if len(d.slabs) == 0 || d.used == len(slab{}) {
		d.slabs, d.used = append(d.slabs, slabs.Get().(*slab)), 0
	}
	v := &d.slabs[len(d.slabs)-1][d.used]
	d.used++
	v.doc, v.parent, v.name = d, parent, name
	return v
}

// Root is the handle on the whole document.
func (d *Document) Root() *Value { return d.root }

// Err is the first read or write that met a value of the wrong JSON type, as a *field.Error of type
// ErrorTypeTypeInvalid, or the first write that brought the edits above maxPatch, of type ErrorTypeTooLong; nil if there was
// none. After it reads give zero values and writes do nothing, so that a step
// need not check every read: whoever runs the step asks once.
func (d *Document) Err() error { return d.err }

// Edits counts the edits recorded so far, without those that changed nothing: compare before and after a step to know
// whether the step changed the document.
func (d *Document) Edits() int { return d.edits }

// Sent is the document as it was sent.
func (d *Document) Sent() []byte { return d.root.sent }

// Bytes is the document as it now reads, with all edits.
func (d *Document) Bytes() []byte { return d.root.appendTo(nil) }

// Try runs f and keeps all edits it records or, when it returns an error, none of them, and not the document's error either. A Try inside a Try belongs to
// the outer one.
func (d *Document) Try(f func() error) error {
	if d.trying {
		return f()
	}
	d.trying, d.undo = true, d.undo[:0]
	defer func() { d.trying = false }()
	edits, grown, wrong := d.edits, d.grown, d.err
	err := f()
	if err != nil {
		for i := len(d.undo) - 1; i >= 0; i-- {
			d.undo[i]()
		}
		d.edits, d.grown, d.err = edits, grown, wrong
	}
	return err
}

// fail remembers the first value of the wrong type.
func (d *Document) fail(v *Value, detail string, args ...any) {
	if d.err == nil {
		d.err = field.TypeInvalid(v.shownPath(), field.OmitValueType{}, fmt.Sprintf(detail, args...))
	}
}

// shownPath is the path for the user, who calls the root as reviews and CEL do.
func (v *Value) shownPath() *field.Path {
	if v.parent == nil {
		return field.NewPath("object")
	}
	return v.Path()
}
