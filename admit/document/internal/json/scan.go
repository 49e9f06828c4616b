// Package json is the engine below documents: it checks JSON, knows where its values are, and reads them without decoding them.
package json

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// The JSON scanner. It is our own, because jsontext, the best library that is equally strict, takes 2.2 to 2.7 times as
// long when it also reports the position of each value (docs/design/performance.md), and every byte of every review is
// scanned. It reads the bytes once, checks all of RFC 8259, and records the position of each value, so that nothing is
// read twice.
//
// Its functions take a position and return the position after what they have read, or bad.

// The bounds of what is scanned.
const (
	maxDepth  = 10_000  // nesting of values: the limit of encoding/json, and so of the API server
	MaxValues = 500_000 // values, each of 24 bytes here; no object that the API server accepts (3 MiB) comes near it unless it was built to
)

// bad is returned in place of a position on an error, which is in scanner.err.
const bad = -1

// scanner reads Tape.raw and fills Tape.entries.
type scanner struct {
	Tape
	max int // the maximum number of values
	err error
}

// Scan checks that raw is one JSON value, surrounded at most by white space, with at most the given number of
// values, and fills a tape with it, whose entries it may reuse.
func Scan(limit int, raw []byte, into *Tape) error {
	s := scanner{Tape: Tape{raw: raw, entries: into.entries[:0]}, max: limit}
	end := s.value()
	if end != bad {
		if end = skipSpace(raw, end); end < len(raw) {
			s.fail(end, "something follows the JSON value")
		}
	}
	if s.err == nil {
		*into = s.Tape
	}
	return s.err
}

// Own returns the tape of JSON that was encoded by us, or checked before.
func Own(raw []byte) *Tape {
	t := &Tape{}
	_ = Scan(MaxValues, raw, t)
	return t
}

// fail records an error at a position, without quoting the document.
func (s *scanner) fail(at int, what string) int {
	if at >= len(s.raw) {
		what = "not JSON: it ends too early"
	}
	s.err = fmt.Errorf("%s at byte %d", what, at)
	return bad
}

// peek returns the byte at i, or 0 beyond the end. A zero byte is not valid JSON anywhere.
func peek(raw []byte, i int) byte {
	if uint(i) < uint(len(raw)) {
		return raw[i]
	}
	return 0
}

// skipSpace skips white space, of which a canonical document has none.
func skipSpace(raw []byte, i int) int {
	if uint(i) < uint(len(raw)) && raw[i] > ' ' {
		return i
	}
	return skipSpaces(raw, i)
}

// skipSpaces is not inlined, so that skipSpace is.
//
//go:noinline
func skipSpaces(raw []byte, i int) int {
	for c := peek(raw, i); c == ' ' || c == '\n' || c == '\t' || c == '\r'; c = peek(raw, i) {
		i++
	}
	return i
}

// level is an object or array that has begun and not yet ended.
type level struct {
	at   int    // its entry
	size uint32 // the number of its members or elements so far
	end  byte   // the byte that ends it: } or ]; 0 outside of all of them
	keys uint64 // a bit for each key: see isNew
	many *keyTable
}

// value reads the value that the document is, and all values in it. It is one loop over local variables, because a call
// for each key would take a sixth of the time. Each round reads a value that begins: in an object its key; then all of
// it or, of a container that is not empty, its first byte; then the ends of the containers that end after it.
func (s *scanner) value() int {
	raw, entries := s.raw, s.entries
	var usually [32]level
	levels := usually[:1]
	in := &levels[0] // the innermost level
	i := skipSpace(raw, 0)
	for {
		at := len(entries)
		if at == cap(entries) {
			entries = s.enlarge(entries, i)
		}
		entries = entries[:at+1]
		e := &entries[at]
		*e = entry{}
		in.size++
		if in.end == '}' {
			if peek(raw, i) != '"' {
				return s.fail(i, "not JSON: a key is missing")
			}
			end, esc := plainText(raw, i+1), plain
			if peek(raw, end) != '"' {
				if end, esc = s.text(end); end == bad {
					return bad
				}
			}
			e.keyStart, e.keyEnd, e.kept = uint32(i+1), uint32(end), uint32(esc)
			bit := uint64(1) << (hash(raw[i+1:end]) & 63)
			if in.keys&bit != 0 || esc == unusual {
				if s.entries = entries; !s.isNew(in, at) {
					return s.fail(i, fmt.Sprintf("duplicate key %.60q", s.keyOf(e)))
				}
			}
			in.keys |= bit
			if i = skipSpace(raw, end+1); peek(raw, i) != ':' {
				return s.fail(i, "not JSON: : is missing")
			}
			i = skipSpace(raw, i+1)
		}
		if at >= s.max {
			return s.fail(i, fmt.Sprintf("more than %d values", s.max))
		}
		e.start = uint32(i)
		switch c := peek(raw, i); c {
		case '"':
			if i = plainText(raw, i+1); peek(raw, i) != '"' {
				if i, _ = s.text(i); i == bad {
					return bad
				}
			}
			i++
		case '{', '[':
			if len(levels) > maxDepth {
				return s.fail(i, fmt.Sprintf("nested deeper than %d levels", maxDepth))
			}
			if i = skipSpace(raw, i+1); peek(raw, i) != c+2 { // } or ]
				levels = append(levels, level{at: at, end: c + 2})
				in = &levels[len(levels)-1]
				continue
			}
			i++
		case 't':
			i = s.literal(i, "true")
		case 'f':
			i = s.literal(i, "false")
		case 'n':
			i = s.literal(i, "null")
		default:
			i = s.number(i)
		}
		if i == bad {
			return bad
		}
		e.end, e.next = uint32(i), uint32(at+1)
		for i = skipSpace(raw, i); peek(raw, i) != ',' || in.end == 0; i = skipSpace(raw, i) {
			if in.end == 0 {
				s.entries = entries
				return i
			}
			if peek(raw, i) != in.end {
				return s.fail(i, fmt.Sprintf("not JSON: , or %c is missing", in.end))
			}
			i++
			ended := &entries[in.at]
			ended.end, ended.next = uint32(i), uint32(len(entries))
			ended.kept |= in.size << escapesBits
			if in.many != nil && in.size > ManyKeys {
				s.keep(in)
			}
			levels = levels[:len(levels)-1]
			in = &levels[len(levels)-1]
		}
		i = skipSpace(raw, i+1)
	}
}

// enlarge returns entries with room for more, when those before position i fill them. It counts what may begin a value, so
// that a large document does not leave several times its entries as garbage; but since that may all be in one string, it
// gives at most eight times the room there was.
func (s *scanner) enlarge(entries []entry, i int) []entry {
	rest := s.raw[i:]
	values := 1 + bytes.Count(rest, []byte(",")) + bytes.Count(rest, []byte("[")) + bytes.Count(rest, []byte("{"))
	room := min(values, s.max+1-len(entries), max(firstEntries, 7*len(entries)))
	return append(make([]entry, 0, len(entries)+room), entries...)
}

// firstEntries is the maximum number of entries that a new tape has room for.
const firstEntries = 1 << 10

// plainText returns the position of the first byte at or after i that ends a string or needs a closer look: a quote, a
// backslash, a control character or a byte of a multi-byte character. It handles eight bytes at a time: the lowest
// marked byte is such a byte. A borrow of the subtractions can only mark bytes above it.
func plainText(raw []byte, i int) int {
	for i+8 <= len(raw) {
		x := binary.LittleEndian.Uint64(raw[i : i+8])
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		if marked := ((quote - ones) | (slash - ones) | (x - ones*' ') | x) & highs; marked != 0 {
			return i + bits.TrailingZeros64(marked)/8
		}
		i += 8
	}
	for c := peek(raw, i); c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'; c = peek(raw, i) {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text reads the rest of a string from i, which is in it, up to its closing quote, and returns the position of that.
func (s *scanner) text(i int) (end int, esc escapes) {
	for {
		if i = plainText(s.raw, i); peek(s.raw, i) == '"' {
			return i, esc
		}
		if peek(s.raw, i) == '\\' && peek(s.raw, i+1) == '"' { // nearly all escapes, above all in managedFields
			i, esc = i+2, max(esc, usual)
			continue
		}
		var kind escapes
		if i, kind = s.special(i); i == bad {
			return bad, esc
		}
		esc = max(esc, kind)
	}
}

// special reads what a string may contain besides plain ASCII: an escape, or a multi-byte character.
func (s *scanner) special(i int) (int, escapes) {
	switch c := peek(s.raw, i); {
	case c == '\\':
		return s.escape(i + 1)
	case c < ' ':
		return s.fail(i, "not JSON: a control character in a string"), plain
	}
	if r, size := utf8.DecodeRune(s.raw[i:]); r != utf8.RuneError || size > 1 {
		return i + size, plain
	}
	s.err = fmt.Errorf("not JSON: invalid UTF-8 at byte %d", i)
	return bad, plain
}

// escape reads the rest of an escape, after its backslash.
func (s *scanner) escape(i int) (int, escapes) {
	switch peek(s.raw, i) {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return i + 1, usual
	case '/':
		return i + 1, unusual
	case 'u':
		return s.codeUnits(i + 1), unusual
	}
	return s.fail(i, "not JSON: an unknown escape in a string"), plain
}

// codeUnits reads the digits of a \u escape, and the second escape of a surrogate pair. Half a pair is refused: readers
// replace it, so that two different keys could become equal.
func (s *scanner) codeUnits(i int) int {
	unit := s.hex(i)
	if unit == bad {
		return bad
	}
	if i += 4; unit < 0xd800 || unit > 0xdfff {
		return i
	}
	if unit < 0xdc00 && peek(s.raw, i) == '\\' && peek(s.raw, i+1) == 'u' {
		if low := s.hex(i + 2); low >= 0xdc00 && low <= 0xdfff {
			return i + 6
		}
	}
	return s.fail(i, "not JSON: half a surrogate pair in a string")
}

// hex returns the value of four hexadecimal digits.
func (s *scanner) hex(i int) (unit int) {
	for end := i + 4; i < end; i++ {
		switch c := peek(s.raw, i); {
		case isDigit(c):
			unit = unit<<4 | int(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			unit = unit<<4 | int(c|0x20-'a'+10)
		default:
			return s.fail(i, "not JSON: a bad \\u escape in a string")
		}
	}
	return unit
}

// literal reads true, false or null.
func (s *scanner) literal(i int, word string) int {
	end := i + len(word)
	if end > len(s.raw) {
		return s.fail(len(s.raw), "")
	}
	if string(s.raw[i:end]) != word {
		return s.fail(i, "not JSON: a value is missing")
	}
	return end
}

func (s *scanner) number(i int) int {
	if peek(s.raw, i) == '-' {
		i++
	}
	if peek(s.raw, i) == '0' {
		i++
	} else if i = s.digits(i); i == bad {
		return bad
	}
	if peek(s.raw, i) == '.' {
		if i = s.digits(i + 1); i == bad {
			return bad
		}
	}
	if c := peek(s.raw, i); c == 'e' || c == 'E' {
		i++
		if c := peek(s.raw, i); c == '+' || c == '-' {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits reads one or more digits.
func (s *scanner) digits(i int) int {
	if !isDigit(peek(s.raw, i)) {
		return s.fail(i, "not JSON: a value or a digit is missing")
	}
	for isDigit(peek(s.raw, i)) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// ManyKeys is the number of keys of an object above which they are looked up in a table.
const ManyKeys = 64

// hash hashes a key's length and three of its bytes, which distinguishes most keys of one object.
func hash(key []byte) uint32 {
	n := len(key)
	if n == 0 {
		return 0
	}
	return uint32(n)*7 ^ uint32(key[0])*31 ^ uint32(key[n/2])*131 ^ uint32(key[n-1])*17
}

// isNew reports whether the key of the entry at is new in the object that is scanned. One bit of each key's hash is
// enough to recognize most new keys, so that only the others come here, and are compared with the keys before them.
// Beyond ManyKeys keys, and as soon as there is a second key and one has unusual escapes, keys are looked up in a table
// instead, so that the cost is always linear in the length of the object. The table of many keys stays with the Tape.
func (s *scanner) isNew(in *level, at int) bool {
	e := &s.entries[at]
	if at == in.at+1 { // the first key, with unusual escapes
		in.keys = allBits
		return true
	}
	if in.many == nil {
		key, count := s.raw[e.keyStart:e.keyEnd], 0
		for i := in.at + 1; i < at; i = int(s.entries[i].next) {
			before := &s.entries[i]
			if bytes.Equal(s.raw[before.keyStart:before.keyEnd], key) {
				return false
			}
			count++
		}
		if count < ManyKeys && e.escapes() != unusual && in.keys != allBits {
			return true
		}
		in.many = s.tableOf(in, at)
	}
	in.keys = allBits
	return in.many.add(&s.Tape, uint32(at))
}

// allBits makes all further keys of an object come to isNew.
const allBits = ^uint64(0)

// tableOf returns the table of the object that is scanned, with the keys before the entry at.
func (s *scanner) tableOf(in *level, at int) *keyTable {
	table := newKeyTable()
	for i := in.at + 1; i < at; i = int(s.entries[i].next) {
		table.add(&s.Tape, uint32(i))
	}
	return table
}

// keep keeps the table of an object that has ended and has many keys. A table of few keys, which escapes can make, would
// take more than the object, and does not help to find them.
func (s *scanner) keep(in *level) {
	if s.tables == nil {
		s.tables = map[uint32]*keyTable{}
	}
	s.tables[uint32(in.at)] = in.many
}
