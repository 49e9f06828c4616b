package document

import (
	"fmt"
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
	max   int // the maximum number of values
	depth int
	err   error
}

// scan checks that raw is one JSON value, surrounded at most by white space. It may reuse entries.
func scan(raw []byte, entries []entry) (*tape, error) { return scanUpTo(maxValues, raw, entries) }

// scanUpTo is scan with a maximum number of values.
func scanUpTo(limit int, raw []byte, entries []entry) (*tape, error) {
	s := scanner{tape: tape{raw, entries[:0]}, max: limit}
	s.entries = append(s.entries, entry{})
	end := s.value(s.space(0))
	if end != bad {
		if end = s.space(end); end < len(raw) {
			s.fail(end, "something follows the JSON value")
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	return &s.tape, nil
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
func (s *scanner) peek(i int) byte {
	if uint(i) < uint(len(s.raw)) {
		return s.raw[i]
	}
	return 0
}

// space skips white space, of which a canonical document has none.
func (s *scanner) space(i int) int {
	if s.peek(i) > ' ' {
		return i
	}
	for i < len(s.raw) && (s.raw[i] == ' ' || s.raw[i] == '\n' || s.raw[i] == '\t' || s.raw[i] == '\r') {
		i++
	}
	return i
}

// value reads the value at i into the last entry, whose key has already been set.
func (s *scanner) value(i int) int {
	at := len(s.entries) - 1
	if at >= s.max {
		return s.fail(i, fmt.Sprintf("more than %d values", s.max))
	}
	s.entries[at].start = uint32(i)
	switch c := s.peek(i); c {
	case '"':
		i, _ = s.str(i)
	case '{', '[':
		i = s.container(i, at, c)
	case 't':
		i = s.literal(i, "true")
	case 'f':
		i = s.literal(i, "false")
	case 'n':
		i = s.literal(i, "null")
	default:
		i = s.number(i)
	}
	done := &s.entries[at]
	done.end, done.next = uint32(i), uint32(len(s.entries))
	return i
}

// container reads the object or array at i. first is its first byte.
func (s *scanner) container(i, at int, first byte) int {
	if s.depth++; s.depth > maxDepth {
		return s.fail(i, fmt.Sprintf("nested deeper than %d levels", maxDepth))
	}
	switch i = s.space(i + 1); {
	case s.peek(i) == first+2: // } or ]
		i++
	case first == '{':
		i = s.object(i, at)
	default:
		i = s.array(i)
	}
	s.depth--
	return i
}

func (s *scanner) array(i int) int {
	for {
		s.entries = append(s.entries, entry{})
		if i = s.value(i); i == bad {
			return bad
		}
		switch i = s.space(i); s.peek(i) {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return s.fail(i, "not JSON: , or ] is missing")
		}
	}
}

func (s *scanner) object(i, at int) int {
	keys := keySet{first: at + 1}
	for {
		if i = s.key(i, &keys); i == bad {
			return bad
		}
		if i = s.value(i); i == bad {
			return bad
		}
		switch i = s.space(i); s.peek(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(i, "not JSON: , or } is missing")
		}
	}
}

// key reads a key and the colon after it into a new entry. The key must not occur twice in its object.
func (s *scanner) key(i int, keys *keySet) int {
	if s.peek(i) != '"' {
		return s.fail(i, "not JSON: a key is missing")
	}
	end, esc := s.str(i)
	if end == bad {
		return bad
	}
	at := len(s.entries)
	s.entries = append(s.entries, entry{})
	e := &s.entries[at]
	e.keyStart, e.keyEnd, e.escapes = uint32(i+1), uint32(end-1), esc
	if !keys.add(&s.tape, at) {
		return s.fail(i, fmt.Sprintf("duplicate key %.60q", s.keyOf(e)))
	}
	if i = s.space(end); s.peek(i) != ':' {
		return s.fail(i, "not JSON: : is missing")
	}
	return s.space(i + 1)
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)
