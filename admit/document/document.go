// Package document holds the object under review as the bytes that were sent.
//
// A step reads parts of the object through handles (Value) and records edits on them. The patch is the list of these
// edits, not a diff of two encodings: it changes only what a step changed, applies to the document that was sent, and
// cannot move or remove a field that our Go types do not know.
package document

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document/internal/json"
)

// Document is one JSON document and the edits recorded on it. It is not safe for concurrent use.
type Document struct {
	root   *Value
	tape   *json.Tape // returned to the pool by Release; nil in a Sub, which uses another document's
	memory *memory    // returned to the pool by Release
	err    error
	edits  int
	grown  int // an upper bound of the patch size in bytes: see grow
	trying bool
}

// Parse checks that raw is one valid JSON value and wraps it. It refuses anything that a reader and the API server
// could understand differently: duplicate keys, invalid UTF-8, data after the value. The document refers to raw, which
// must not change while the document is in use.
func Parse(raw []byte) (*Document, error) { return parseUpTo(MaxValues, raw) }

func parseUpTo(limit int, raw []byte) (*Document, error) {
	t := json.New()
	if err := json.Scan(limit, raw, t); err != nil {
		t.Release()
		return nil, err
	}
	d := wrap(t, 0)
	d.tape = t
	return d, nil
}

// wrap makes a document of one value on a tape.
func wrap(t *json.Tape, at uint32) *Document {
	d := &Document{memory: memories.Get().(*memory)}
	d.root = d.newValue(nil, "")
	d.root.sentAt(t, at)
	return d
}

// Release releases the memory of the document. Its handles and Subs must not be used afterwards; Subs must be released
// before it. A document that is not released is left to the garbage collector.
func (d *Document) Release() {
	if d.tape != nil {
		d.tape.Release()
	}
	if d.memory != nil {
		d.memory.release()
	}
	*d = Document{}
}

// Root returns the handle of the whole document.
func (d *Document) Root() *Value { return d.root }

// Err returns the first error: a *field.Error of type ErrorTypeTypeInvalid for a read or write that met a value of the
// wrong JSON type, or of type ErrorTypeTooLong for the write that exceeded maxPatch. After an error, reads return zero
// values and writes do nothing, so a step need not check every read: the caller of the step checks Err once.
func (d *Document) Err() error { return d.err }

// Edits returns the number of edits recorded so far, not counting those that changed nothing. A difference before and
// after a step shows that the step changed the document.
func (d *Document) Edits() int { return d.edits }

// Sent returns the document as it was sent.
func (d *Document) Sent() []byte { return d.root.sent }

// Bytes returns the current document, with all edits.
func (d *Document) Bytes() []byte { return d.root.AppendTo(nil) }

// Try runs f and keeps the edits it records. If f returns an error, Try undoes them, restores the document's error, and
// returns the error. In a nested Try, only the outer one undoes.
func (d *Document) Try(f func() error) error {
	if d.trying {
		return f()
	}
	d.trying = true
	defer func() {
		d.trying = false
		d.memory.forgetUndo()
	}()
	edits, grown, wrong := d.edits, d.grown, d.err
	err := f()
	if err != nil {
		d.memory.takeBack()
		d.edits, d.grown, d.err = edits, grown, wrong
	}
	return err
}

// fail records an error, if it is the first.
func (d *Document) fail(v *Value, detail string, args ...any) {
	if d.err == nil {
		d.err = field.TypeInvalid(v.shownPath(), field.OmitValueType{}, fmt.Sprintf(detail, args...))
	}
}

// shownPath returns the path for messages. The root is named as in reviews and CEL.
func (v *Value) shownPath() *field.Path {
	if v.parent == nil {
		return field.NewPath("object")
	}
	return v.Path()
}
