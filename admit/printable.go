package admit

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable returns a text of a user for a log or a terminal: what is not printable, such as control characters, line
// breaks, the direction marks of Unicode and bytes that are not UTF-8, is escaped as in Go.
func Printable(text string) string {
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
