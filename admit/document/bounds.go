package document

import "fmt"

// The bounds of a document. A list of more than maxChildren could run on no node; the Go value of the two bytes {} takes
// up to 700 bytes, so that MaxDecoded bounds the memory of a decoding, and not the number of bytes: a pod of 1.5 MiB has
// 40,000 values.
const (
	maxDepth    = 10_000  // nesting of values: the limit of encoding/json, and so of the API server
	MaxValues   = 500_000 // values of a document, each of 24 bytes here; no object that the API server accepts (3 MiB) comes near it unless it was built to
	maxChildren = 10_000  // members or elements of a container that a step can read
	MaxDecoded  = 50_000  // values that are decoded together
)

// tooMany reports whether a container has more than maxChildren children, and if so sets the document's error.
func (v *Value) tooMany() bool {
	if !v.scanned() || v.tape.size(v.at) <= maxChildren {
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
	case all > MaxDecoded:
		return fmt.Sprintf("has more than %d values", MaxDecoded)
	}
	for i := container; i < end; i++ {
		if c := t.raw[t.entries[i].start]; (c == '{' || c == '[') && t.size(i) > maxChildren {
			return fmt.Sprintf("has more than %d parts in one list or object", maxChildren)
		}
	}
	return ""
}
