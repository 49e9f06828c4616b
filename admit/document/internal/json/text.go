package json

import (
	"bytes"
	"reflect"

	kjson "sigs.k8s.io/json"
)

// Same reports whether two values are equal JSON, ignoring white space, escapes and the order of keys. They have been checked, and
// have no white space around them.
func Same(a, b []byte) bool {
	switch {
	case bytes.Equal(a, b):
		return true
	case KindOf(a) != KindOf(b), isPlain(a) && isPlain(b):
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
