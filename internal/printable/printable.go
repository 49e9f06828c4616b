// Package printable makes texts of users safe for logs and terminals.
package printable

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns a text for a log or a line on a terminal: what is not printable, such as control characters, line
// breaks, the direction marks of Unicode and bytes that are not UTF-8, is escaped as in Go.
func Line(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(text[:size])
		} else {
			quoted := strconv.Quote(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}

// isPlain reports whether a text is printable ASCII, as nearly all are.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Lines returns a text for a terminal without what a terminal would obey, which is replaced: control characters, marks of the
// direction of text, and separators of lines and paragraphs. Line breaks and tabs stay.
func Lines(text string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// JSON returns JSON in which the characters that Lines replaces are escaped. Beside line breaks and tabs, JSON has them in strings
// only.
func JSON(raw []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(raw) {
		if steers(r) {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// steers reports whether a character, other than a line break or tab, may move the cursor, or show text in another order than it is
// written.
func steers(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}
