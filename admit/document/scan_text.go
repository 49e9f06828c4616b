package document

import (
	"fmt"
	"unicode/utf8"
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
