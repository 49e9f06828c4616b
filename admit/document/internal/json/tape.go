package json

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// Tape is a checked JSON text and the positions of its values, in the order in which they begin.
type Tape struct {
	raw     []byte
	entries []entry
	tables  map[uint32]*keyTable // the keys of each object that has many, by the object's entry
}

// entry is one value. Offsets are into raw.
type entry struct {
	start, end       uint32
	keyStart, keyEnd uint32 // of its key, without the quotes, if it is a member
	next             uint32 // the entry after this value and its descendants
	kept             uint32 // the escapes of its key, and above them the number of its members or elements
}

func (e *entry) escapes() escapes { return escapes(e.kept & escapesMask) }

// size returns the number of members or elements; 0 if this is no container.
func (e *entry) size() int { return int(e.kept >> escapesBits) }

const (
	escapesBits = 2
	escapesMask = 1<<escapesBits - 1
)

// escapes says which escapes a string contains.
type escapes uint8

const (
	plain   escapes = iota // none
	usual                  // only the short escapes of characters that have one: equal strings still have equal bytes
	unusual                // also \u or \/: equal strings may have different bytes
)

// Bytes returns a value's JSON. Its capacity is limited, so that appending to it does not overwrite the document.
func (t *Tape) Bytes(at uint32) []byte {
	e := &t.entries[at]
	return t.raw[e.start:e.end:e.end]
}

// isKey reports whether a member has the given key.
func (t *Tape) isKey(e *entry, key string) bool {
	if e.escapes() != plain {
		return t.keyOf(e) == key
	}
	return string(t.raw[e.keyStart:e.keyEnd]) == key
}

// keyOf returns a member's key.
func (t *Tape) keyOf(e *entry) string {
	if e.escapes() != plain {
		return Unquote(t.raw[e.keyStart-1 : e.keyEnd+1])
	}
	return string(t.raw[e.keyStart:e.keyEnd])
}

// Member returns the entry of an object's member; false if there is none with that key.
func (t *Tape) Member(object uint32, key string) (uint32, bool) {
	if t.entries[object].size() > ManyKeys {
		if keys := t.tables[object]; keys != nil {
			return keys.find(t, key)
		}
	}
	for i := object + 1; i < t.entries[object].next; i = t.entries[i].next {
		if t.isKey(&t.entries[i], key) {
			return i, true
		}
	}
	return 0, false
}

// HasElement reports whether an array has an object whose member key is the string text.
func (t *Tape) HasElement(array uint32, key, text string) bool {
	for i := array + 1; i < t.entries[array].next; i = t.entries[i].next {
		if t.raw[t.entries[i].start] != '{' {
			continue
		}
		if at, ok := t.Member(i, key); ok && IsText(t.Bytes(at), text) {
			return true
		}
	}
	return false
}

// IsText reports whether a JSON value is the given string. An escape is longer than what it stands for.
func IsText(raw []byte, text string) bool {
	switch length := len(raw) - len(`""`); {
	case raw[0] != '"' || length < len(text):
		return false
	case length == len(text):
		return string(raw[1:1+length]) == text && strings.IndexByte(text, '\\') < 0
	}
	return bytes.IndexByte(raw, '\\') >= 0 && unescape(raw) == text
}

// Size returns the number of members or elements of a container.
func (t *Tape) Size(container uint32) int { return t.entries[container].size() }

// Next returns the entry after a value and its descendants. The first child of a container is the entry after its own.
func (t *Tape) Next(at uint32) uint32 { return t.entries[at].next }

// Len returns the number of values.
func (t *Tape) Len() int { return len(t.entries) }

// Key returns the key of a member.
func (t *Tape) Key(member uint32) string { return t.keyOf(&t.entries[member]) }

// Kind returns the kind of a value.
func (t *Tape) Kind(at uint32) Kind { return KindOf(t.raw[t.entries[at].start:]) }

// Unquote returns the value of a valid JSON string.
func Unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') >= 0 {
		return unescape(raw)
	}
	return string(raw[1 : len(raw)-1])
}

// unescape is Unquote for a string with escapes. It leaves \u to the decoder.
func unescape(raw []byte) (text string) {
	var b strings.Builder
	b.Grow(len(raw))
	rest := raw[1 : len(raw)-1]
	for at := bytes.IndexByte(rest, '\\'); at >= 0; at = bytes.IndexByte(rest, '\\') {
		of := strings.IndexByte(`"\/bfnrt`, rest[at+1])
		if of < 0 {
			_ = json.Unmarshal(raw, &text) // cannot fail: it has been scanned
			return text
		}
		b.Write(rest[:at])
		b.WriteByte("\"\\/\b\f\n\r\t"[of])
		rest = rest[at+2:]
	}
	b.Write(rest)
	return b.String()
}

// tapes pools the tapes of released documents.
var tapes = sync.Pool{New: func() any { return new(Tape) }}

// maxKept is the number of entries above which a tape is not pooled.
const maxKept = 1 << 16

// New returns a tape from the pool.
func New() *Tape { return tapes.Get().(*Tape) }

// Release returns the tape to the pool.
func (t *Tape) Release() {
	if cap(t.entries) <= maxKept {
		t.raw, t.entries, t.tables = nil, t.entries[:0], nil
		tapes.Put(t)
	}
}
