package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Harmless returns a text without what a terminal would obey, which is replaced: control characters, marks of the
// direction of text, and separators of lines and paragraphs. Texts quote what users wrote. Line breaks and tabs stay.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && steers(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// steers reports whether a character may move the cursor, or show text in another order than it is written.
func steers(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// WriteJSON writes a value as indented JSON in which the characters that Harmless replaces are escaped.
func WriteJSON(to io.Writer, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(EscapeJSON(raw), '\n'))
	return err
}

// EscapeJSON returns JSON with such characters escaped. Beside line breaks and tabs, JSON has them in strings only.
func EscapeJSON(raw []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(raw) {
		if r != '\n' && r != '\t' && steers(r) {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}
