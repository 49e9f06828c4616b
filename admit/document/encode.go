package document

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// encode returns a Go value that a step sets as JSON. Such values are Kubernetes types and plain data; it panics if one
// cannot be encoded, which is a programming error in the step.
func encode(value any) []byte {
	if text, ok := value.(string); ok {
		return AppendText(make([]byte, 0, len(text)+len(`""`)), text)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("document: a step set a value that has no JSON: %v", err))
	}
	return raw
}

// AppendText appends a string as json.Marshal encodes it. Nearly all have nothing to escape but quotes and backslashes;
// any other is left to json.Marshal.
func AppendText[T string | []byte](b []byte, text T) []byte {
	start, copied := len(b), 0
	b = append(b, '"')
	for i := 0; i < len(text); {
		c, size := text[i], 1
		if c >= utf8.RuneSelf {
			size = sizeOfRune(string(text[i:min(i+utf8.UTFMax, len(text))]))
		}
		switch {
		case c == '"' || c == '\\':
			b = append(append(b, text[copied:i]...), '\\')
			copied = i // c itself comes with what follows
		case c < ' ' || c == '<' || c == '>' || c == '&' || size == 0:
			raw, _ := json.Marshal(string(text)) // every string has JSON
			return append(b[:start], raw...)
		}
		i += size
	}
	return append(append(b, text[copied:]...), '"')
}

// sizeOfRune returns the number of bytes of the character that a text begins with; 0 if json.Marshal writes it otherwise:
// bytes that are not UTF-8, and the line separators of JavaScript.
func sizeOfRune(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
		return 0
	}
	return size
}

// appendTexts appends an object of strings, without those that are empty.
func appendTexts(b []byte, members []TextMember) []byte {
	b = append(b, '{')
	first := true
	for _, m := range members {
		if m.Text == "" {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = AppendText(append(AppendText(b, m.Key), ':'), m.Text)
	}
	return append(b, '}')
}
