package document

import (
	"bytes"
	"errors"

	"usher.dev/usher/admit/document/internal/json"
)

// ParseText is Parse for JSON text in a string of an object. It accepts at most 50,000 values, because it is held in
// addition to the object.
func ParseText(text string) (*Document, error) { return parseUpTo(MaxDecoded, []byte(text)) }

// CheckText returns why a text cannot be decoded as a whole: ParseText refuses it, or it is too large for
// Value.Decodable.
func CheckText(text string) error {
	d, err := ParseText(text)
	if err != nil {
		return err
	}
	defer d.Release()
	if problem := tooLarge(d.tape, 0); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// SameText reports whether two texts are equivalent JSON, ignoring white space, escapes and the order of keys. A text
// that CheckText refuses is equal only to itself.
func SameText(a, b string) bool {
	return a == b || CheckText(a) == nil && CheckText(b) == nil && json.Same(bytes.TrimSpace([]byte(a)), bytes.TrimSpace([]byte(b)))
}
