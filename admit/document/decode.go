package document

import (
	stdjson "encoding/json"
	"errors"

	kjson "sigs.k8s.io/json"

	"usher.dev/usher/admit/document/internal/json"
	"usher.dev/usher/admit/quantity"
)

// Text returns the string here, or "" if it is absent or null. For any other type it sets the document's error.
func (v *Value) Text() string {
	switch v.Kind() {
	case 0, 'n':
		return ""
	case '"':
		return json.Unquote(v.base)
	}
	v.doc.fail(v, "must be a string, not %s", v.Kind())
	return ""
}

// As decodes the value at v by the rules of the API server (case-sensitive names, unknown fields ignored). It returns
// the zero value if v is absent. If the value does not decode into T, As sets the document's error.
func As[T any](v *Value) T {
	var into T
	if !v.Decodable() {
		return into
	}
	raw := v.Bytes()
	if raw == nil {
		return into
	}
	if quantity.MayBeHostile(raw) {
		if text := quantity.Hostile(v.Tree(), v.place()); text != "" {
			v.doc.fail(v, "has the quantity %.40q, which is more than 64 digits or an exponent of more than two", text)
			return into
		}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &into); err != nil {
		v.doc.fail(v, "%s", DecodeProblem(err))
		var zero T
		return zero
	}
	return into
}

// place returns the names under which v is found, for the rules on which values are quantities.
func (v *Value) place() quantity.Place {
	at := v.member()
	if at.parent == nil {
		return quantity.Place{}
	}
	return quantity.Place{Parent: at.parent.member().name, Name: at.name}
}

// member returns v or, if v is an element of a list, the list (the outermost one for nested lists).
func (v *Value) member() *Value {
	for v.parent != nil && v.parent.Kind() == '[' {
		v = v.parent
	}
	return v
}

// DecodeProblem returns a decoder's error in words that do not mention Go types.
func DecodeProblem(err error) string {
	var wrong *stdjson.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return "does not decode: " + err.Error()
	}
	at := ""
	if wrong.Field != "" {
		at = " at " + wrong.Field
	}
	return "has a " + wrong.Value + at + " where the type has something else"
}

// Sub returns a separate document for the value here as it was sent, or nil if there is none. The two documents do not
// see each other's edits.
func (v *Value) Sub() *Document {
	if v.sent == nil || v.Kind() == 'n' {
		return nil
	}
	return wrap(v.Raw().Place())
}
