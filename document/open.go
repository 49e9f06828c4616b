package document

import "slices"

// is tells whether v is, or may become, a container of the given kind: '{' or '['. Anything else is the document's error.
func (v *Value) is(kind byte) bool {
	is := v.kind()
	if is != kind && is != 0 && is != 'n' {
		v.doc.fail(v, "must be %s, not %s", kindNames[kind], kindNames[is])
		return false
	}
	return true
}

// scanned tells whether base is a container on the tape.
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

// tooMany tells whether a container is too large to be looked at, and then makes that the document's error.
func (v *Value) tooMany() bool {
	if !v.scanned() || v.tape.size(v.at) <= maxKids {
		return false
	}
	v.doc.fail(v, "has more than %d parts", maxKids)
	return true
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
