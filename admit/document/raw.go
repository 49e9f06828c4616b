package document

// Raw is one value of a document as it was sent, for reading only. Unlike a Value it makes no handle of what is read,
// has no error, and does not see edits. The zero Raw is an absent value.
type Raw struct {
	tape *tape
	at   uint32
}

// Raw returns the value here as it was sent; the zero Raw if it was absent.
func (v *Value) Raw() Raw {
	switch {
	case v.sent == nil:
		return Raw{}
	case v.tape == nil || v.set: // a step has set something else since
		return Raw{scanOwn(v.sent), 0}
	}
	return Raw{v.tape, v.at}
}

// Current returns the value here as it is now, for reading only until it is edited; false if there are edits in it. An
// absent value is the zero Raw.
func (v *Value) Current() (r Raw, ok bool) {
	switch {
	case v.made != 0 || v.changedBelow():
		return Raw{}, false
	case v.base == nil:
		return Raw{}, true
	case v.tape == nil:
		v.tape, v.at = scanOwn(v.base), 0
	}
	return Raw{v.tape, v.at}, true
}

// RawElements returns the elements of an array as they are now, without handles: those that were sent, then others.
func (v *Value) RawElements() (all []Raw) {
	if v.Kind() != '[' {
		return nil
	}
	if !v.open && v.scanned() {
		for sent := (Raw{v.tape, v.at}).Children(); sent.More(); {
			all = append(all, sent.Next())
		}
	}
	for e := range existing(v.children) {
		now, ok := e.Current()
		if !ok {
			now = Raw{scanOwn(e.Bytes()), 0}
		}
		all = append(all, now)
	}
	return all
}

// Exists reports whether there is a value here; null is a value.
func (r Raw) Exists() bool { return r.tape != nil }

// Kind returns the kind of the value; zero if it is absent.
func (r Raw) Kind() Kind {
	if r.tape == nil {
		return 0
	}
	return kindOf(r.tape.raw[r.tape.entries[r.at].start:])
}

// Bytes returns the value's JSON, which must not be changed; nil if it is absent.
func (r Raw) Bytes() []byte {
	if r.tape == nil {
		return nil
	}
	return r.tape.bytes(r.at)
}

// Text returns the string here; "" if it is none.
func (r Raw) Text() string {
	if r.Kind() != Text {
		return ""
	}
	return unquote(r.tape.bytes(r.at))
}

// IsText reports whether the value is the given string.
func (r Raw) IsText(text string) bool { return r.tape != nil && isText(r.tape.bytes(r.at), text) }

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
	return r.tape.size(r.at)
}

// Member returns an object's member; the zero Raw if there is none, or if this is no object.
func (r Raw) Member(name string) Raw {
	if r.Kind() != Object {
		return Raw{}
	}
	if at, ok := r.tape.member(r.at, name); ok {
		return Raw{r.tape, at}
	}
	return Raw{}
}

// Children iterates over the members or elements of a value.
type Children struct {
	tape      *tape
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

// SameRaw reports whether two values are equal JSON, ignoring white space, escapes and the order of keys. Absent values
// are equal to each other.
func SameRaw(a, b Raw) bool {
	if !a.Exists() || !b.Exists() {
		return a.Exists() == b.Exists()
	}
	return sameJSON(a.Bytes(), b.Bytes())
}
