package document

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// The JSON scanner. It is our own, because jsontext, the best library that is equally strict, takes 2.2 to 2.7 times as
// long when it also reports the position of each value (docs/performance.md), and every byte of every review is
// scanned. It reads the bytes once, checks all of RFC 8259, and records the position of each value, so that nothing is
// read twice.
//
// Its functions take a position and return the position after what they have read, or bad.

// maxDepth is the maximum nesting of values: the limit of encoding/json, and so of the API server.
const maxDepth = 10_000

// maxValues is the maximum number of values of a document. Each takes 24 bytes here, and more once a step reads it. No
// object that the API server accepts (3 MiB) comes near it unless it was built to.
const maxValues = 500_000

// bad is returned in place of a position on an error, which is in scanner.err.
const bad = -1

// scanner reads tape.raw and fills tape.entries.
type scanner struct {
	tape
	max int // the maximum number of values
	err error
}

// scanUpTo checks that raw is one JSON value, surrounded at most by white space, with at most the given number of
// values, and fills a tape with it, whose entries it may reuse.
func scanUpTo(limit int, raw []byte, into *tape) error {
	s := scanner{tape: tape{raw, into.entries[:0]}, max: limit}
	end := s.value()
	if end != bad {
		if end = skipSpace(raw, end); end < len(raw) {
			s.fail(end, "something follows the JSON value")
		}
	}
	if s.err == nil {
		*into = s.tape
	}
	return s.err
}

// scanOwn returns the tape of JSON that was encoded by us, or checked before.
func scanOwn(raw []byte) *tape {
	t := &tape{}
	_ = scanUpTo(maxValues, raw, t)
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
	end  byte   // the byte that ends it: } or ]; 0 outside of all of them
	keys uint64 // a bit for each key: see isNew
	many map[string]bool
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
		entries = append(entries, entry{})
		e := &entries[at]
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
			e.keyStart, e.keyEnd, e.escapes = uint32(i+1), uint32(end), esc
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
			levels = levels[:len(levels)-1]
			in = &levels[len(levels)-1]
		}
		i = skipSpace(raw, i+1)
	}
}

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
