package document

import (
	"bytes"
	"errors"
	"reflect"

	kjson "sigs.k8s.io/json"
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
	if problem := d.tape.tooLarge(0); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// SameText reports whether two texts are equivalent JSON, ignoring white space, escapes and the order of keys. A text
// that CheckText refuses is equal only to itself.
func SameText(a, b string) bool {
	return a == b || CheckText(a) == nil && CheckText(b) == nil && sameJSON(bytes.TrimSpace([]byte(a)), bytes.TrimSpace([]byte(b)))
}

// sameJSON is SameText for JSON that has been checked, without white space around it.
func sameJSON(a, b []byte) bool {
	switch {
	case bytes.Equal(a, b):
		return true
	case kindOf(a) != kindOf(b), isPlain(a) && isPlain(b):
		return false
	}
	var left, right any
	return kjson.UnmarshalCaseSensitivePreserveInts(a, &left) == nil &&
		kjson.UnmarshalCaseSensitivePreserveInts(b, &right) == nil &&
		reflect.DeepEqual(left, right)
}

// isPlain reports whether a value is a string without escapes or a short integer: two of these are equal only byte by byte.
func isPlain(raw []byte) bool {
	if raw[0] == '"' {
		return bytes.IndexByte(raw, '\\') < 0
	}
	return len(raw) <= len("999999999999999999") && len(bytes.TrimLeft(raw, "0123456789")) == 0
}
