package document

import "usher.dev/usher/admit/document/internal/json"

// Raw is one value of a document as it was sent, for reading only. Unlike a Value it makes no handle of what is read,
// has no error, and does not see edits. The zero Raw is an absent value.
type Raw = json.Raw

// Children iterates over the members or elements of a Raw.
type Children = json.Children

// Raw returns the value here as it was sent; the zero Raw if it was absent.
func (v *Value) Raw() Raw {
	switch {
	case v.sent == nil:
		return Raw{}
	case v.tape == nil || v.set: // a step has set something else since
		return json.At(json.Own(v.sent), 0)
	}
	return json.At(v.tape, v.at)
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
		v.tape, v.at = json.Own(v.base), 0
	}
	return json.At(v.tape, v.at), true
}

// RawElements returns the elements of an array as they are now, without handles: those that were sent, then others.
func (v *Value) RawElements() (all []Raw) {
	if v.Kind() != '[' {
		return nil
	}
	if !v.open && v.scanned() {
		for sent := json.At(v.tape, v.at).Children(); sent.More(); {
			all = append(all, sent.Next())
		}
	}
	for e := range existing(v.children) {
		now, ok := e.Current()
		if !ok {
			now = json.At(json.Own(e.Bytes()), 0)
		}
		all = append(all, now)
	}
	return all
}

// SameRaw reports whether two values are equal JSON, ignoring white space, escapes and the order of keys. Absent values
// are equal to each other.
func SameRaw(a, b Raw) bool {
	if !a.Exists() || !b.Exists() {
		return a.Exists() == b.Exists()
	}
	return json.Same(a.Bytes(), b.Bytes())
}
