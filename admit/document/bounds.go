package document

import (
	"fmt"

	"usher.dev/usher/admit/document/internal/json"
)

// The bounds of a document. A list of more than maxChildren could run on no node; the Go value of the two bytes {} takes
// up to 700 bytes, so that MaxDecoded bounds the memory of a decoding, and not the number of bytes: a pod of 1.5 MiB has
// 40,000 values.
const (
	MaxValues   = json.MaxValues // values of a document
	maxChildren = 10_000         // members or elements of a container that a step can read
	MaxDecoded  = 50_000         // values that are decoded together
)

// tooMany reports whether a container has more than maxChildren children, and if so sets the document's error.
func (v *Value) tooMany() bool {
	if !v.scanned() || v.tape.Size(v.at) <= maxChildren {
		return false
	}
	v.doc.fail(v, "has more than %d parts", maxChildren)
	return true
}

// Decodable reports whether the value here is small enough to be decoded as a whole: at most 50,000 values, and at most
// 10,000 in any one list or object. If not, it sets the document's error.
func (v *Value) Decodable() bool {
	if !v.scanned() {
		return true
	}
	problem := tooLarge(v.tape, v.at)
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
		if t.Kind(at) == Object {
			at, found = t.Member(at, name)
		}
		if !found {
			return 0
		}
	}
	return t.Size(at)
}

// tooLarge returns why a container must not be decoded, or "".
func tooLarge(t *json.Tape, container uint32) string {
	end := t.Next(container)
	switch all := end - container; {
	case all <= maxChildren:
		return ""
	case all > MaxDecoded:
		return fmt.Sprintf("has more than %d values", MaxDecoded)
	}
	for i := container; i < end; i++ {
		if t.Size(i) > maxChildren { // of others it is 0
			return fmt.Sprintf("has more than %d parts in one list or object", maxChildren)
		}
	}
	return ""
}
