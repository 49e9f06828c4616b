package json

// Raw is one value of a document as it was sent, for reading only. Unlike a Value it makes no handle of what is read,
// has no error, and does not see edits. The zero Raw is an absent value.
type Raw struct {
	tape *Tape
	at   uint32
}

// At returns the value at an entry of a tape.
func At(t *Tape, at uint32) Raw { return Raw{t, at} }

// Place returns the tape of a value and its entry there.
func (r Raw) Place() (*Tape, uint32) { return r.tape, r.at }

// Exists reports whether there is a value here; null is a value.
func (r Raw) Exists() bool { return r.tape != nil }

// Kind returns the kind of the value; zero if it is absent.
func (r Raw) Kind() Kind {
	if r.tape == nil {
		return 0
	}
	return r.tape.Kind(r.at)
}

// Bytes returns the value's JSON, which must not be changed; nil if it is absent.
func (r Raw) Bytes() []byte {
	if r.tape == nil {
		return nil
	}
	return r.tape.Bytes(r.at)
}

// Text returns the string here; "" if it is none.
func (r Raw) Text() string {
	if r.Kind() != Text {
		return ""
	}
	return Unquote(r.tape.Bytes(r.at))
}

// IsText reports whether the value is the given string.
func (r Raw) IsText(text string) bool { return r.tape != nil && IsText(r.tape.Bytes(r.at), text) }

// Key returns the key of a member of an object; "" for other values.
func (r Raw) Key() string {
	if r.tape == nil || r.tape.entries[r.at].keyEnd == 0 {
		return ""
	}
	return r.tape.keyOf(&r.tape.entries[r.at])
}

// AppendKey appends the JSON of the key of a member of an object, without quotes; nothing for other values.
func (r Raw) AppendKey(to []byte) []byte {
	if r.tape == nil {
		return to
	}
	e := &r.tape.entries[r.at]
	return append(to, r.tape.raw[e.keyStart:e.keyEnd]...)
}

// IsKey reports whether this is a member of an object with the given key.
func (r Raw) IsKey(key string) bool {
	return r.tape != nil && r.tape.entries[r.at].keyEnd > 0 && r.tape.isKey(&r.tape.entries[r.at], key)
}

// Size returns the number of members or elements; 0 if this is no container.
func (r Raw) Size() int {
	if r.tape == nil {
		return 0
	}
	return r.tape.Size(r.at)
}

// Member returns an object's member; the zero Raw if there is none, or if this is no object.
func (r Raw) Member(name string) Raw {
	if r.Kind() != Object {
		return Raw{}
	}
	if at, ok := r.tape.Member(r.at, name); ok {
		return Raw{r.tape, at}
	}
	return Raw{}
}

// Children iterates over the members or elements of a value.
type Children struct {
	tape      *Tape
	next, end uint32
}

// Children returns the members or elements of the value in order; none if it is no container.
func (r Raw) Children() Children {
	if r.tape == nil {
		return Children{}
	}
	return Children{r.tape, r.at + 1, r.tape.entries[r.at].next}
}

// More reports whether Next has another child to return.
func (c *Children) More() bool { return c.next < c.end }

// Next returns the next child; the zero Raw after the last one.
func (c *Children) Next() Raw {
	if !c.More() {
		return Raw{}
	}
	child := Raw{c.tape, c.next}
	c.next = c.tape.entries[c.next].next
	return child
}
