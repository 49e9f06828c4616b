package document

import (
	"fmt"
	"slices"
)

// is reports whether v is, or may become, a container of the given kind: '{' or '['. Anything else is the document's error.
func (v *Value) is(kind byte) bool {
	is := v.kind()
	if is != kind && is != 0 && is != 'n' {
		v.doc.fail(v, "must be %s, not %s", kindNames[kind], kindNames[is])
		return false
	}
	return true
}

// scanned reports whether base is a container on the tape.
func (v *Value) scanned() bool {
	if v.base == nil || v.base[0] != '{' && v.base[0] != '[' {
		return false
	}
	if v.tape == nil {
		v.tape, _ = scan(v.base, nil) // encoded by us, so valid
		v.at = 0
	}
	return true
}

// opened gives all kids of a container in order.
func (v *Value) opened(kind byte) []*Value {
	if !v.is(kind) {
		return nil
	}
	if !v.open {
		v.openAll()
	}
	return v.kids
}

// maxKids is how many members or elements of one place a step can look at. A list beyond it is nothing that a node could run.
const maxKids = 10_000

// tooMany reports whether a container is too large to be looked at, and then makes that the document's error.
func (v *Value) tooMany() bool {
	if !v.scanned() || v.tape.size(v.at) <= maxKids {
		return false
	}
	v.doc.fail(v, "has more than %d parts", maxKids)
	return true
}

// maxDecoded is how many values are decoded together. A Go value takes up to 700 bytes for the two of {}, so it is the number that
// bounds a decoding and not the bytes. A pod of 1.5 MiB has 40,000.
const maxDecoded = 50_000

// Decodable reports whether what stands here has a size that may be decoded as a whole: at most 50,000 values, and at most 10,000
// in any one list or object. If not, that is the document's error.
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

// SentSize is how many members or elements stood at a place in the document that was sent, without a look at them; 0 if there was
// no object or array.
func (d *Document) SentSize(names ...string) int {
	t, at := d.root.tape, d.root.at
	if t == nil {
		return 0 // set as a whole
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

// tooLarge says what keeps a container from being decoded, or "".
func (t *tape) tooLarge(container uint32) string {
	end := t.entries[container].next
	switch all := end - container; {
	case all <= maxKids:
		return ""
	case all > maxDecoded:
		return fmt.Sprintf("has more than %d values", maxDecoded)
	}
	for i := container; i < end; i++ {
		if c := t.raw[t.entries[i].start]; (c == '{' || c == '[') && t.size(i) > maxKids {
			return fmt.Sprintf("has more than %d parts in one list or object", maxKids)
		}
	}
	return ""
}

// openAll makes the handles that are missing.
func (v *Value) openAll() {
	v.open = true
	if !v.scanned() || v.tooMany() {
		return
	}
	early := v.kids // handed out by Get
	v.kids = make([]*Value, 0, v.tape.size(v.at)+len(early))
	for i := v.at + 1; i < v.tape.entries[v.at].next; i = v.tape.entries[i].next {
		v.kids = append(v.kids, v.kidAt(i, early))
	}
	for _, kid := range early {
		if !slices.Contains(v.kids, kid) {
			v.kids = append(v.kids, kid)
		}
	}
}

// kidAt is the kid at an entry of the tape: the one handed out already, or a new one.
func (v *Value) kidAt(at uint32, early []*Value) *Value {
	name := ""
	if v.base[0] == '{' {
		name = v.tape.keyOf(&v.tape.entries[at])
		for _, kid := range early {
			if kid.name == name {
				return kid
			}
		}
	}
	kid := v.newKid(name)
	kid.found(at)
	return kid
}
