package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// The only file that knows the JSON scanner. Its defaults are what check promises: they refuse duplicate names and
// invalid UTF-8. What was checked once is opened again without those checks.
var trusted = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// check returns the one JSON value in raw without the white space around it.
func check(raw []byte) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	value, err := dec.ReadValue()
	if err != nil {
		return nil, explain(err)
	}
	end := int(dec.InputOffset())
	if rest := bytes.TrimLeft(raw[end:], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("not one JSON value: something follows at byte %d", len(raw)-len(rest))
	}
	return raw[end-len(value) : end : end], nil
}

// explain says where the document is not JSON, without quoting it.
func explain(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &syntax):
		return errors.New("not JSON: it ends too early")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("duplicate key %q at byte %d", syntax.JSONPointer.LastToken(), syntax.ByteOffset)
	default:
		return fmt.Errorf("not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)
	}
}

// openObject gives the members of a valid JSON object in their order.
func openObject(parent *Value, raw []byte) []*Value {
	var members []*Value
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), trusted...)
	for skipToken(dec); dec.PeekKind() != '}'; {
		name, err := dec.ReadToken()
		if err != nil {
			return members
		}
		key := name.String()
		members = append(members, readChild(parent, key, raw, dec))
	}
	return members
}

// openArray gives the elements of a valid JSON array in their order.
func openArray(parent *Value, raw []byte) []*Value {
	var elements []*Value
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), trusted...)
	for skipToken(dec); dec.PeekKind() != ']'; {
		elements = append(elements, readChild(parent, "", raw, dec))
	}
	return elements
}

func skipToken(dec *jsontext.Decoder) { _, _ = dec.ReadToken() }

// readChild makes a handle on the next value. raw is known to be valid, so that an error is a mistake of ours.
func readChild(parent *Value, name string, raw []byte, dec *jsontext.Decoder) *Value {
	value, err := dec.ReadValue()
	if err != nil {
		panic(fmt.Sprintf("document: a value that was checked does not read: %v", err))
	}
	end := int(dec.InputOffset())
	child := &Value{doc: parent.doc, parent: parent, name: name, base: raw[end-len(value) : end : end]}
	if !parent.set {
		child.sent = child.base
	}
	return child
}

// unquote gives the text of a valid JSON string.
func unquote(raw []byte) string {
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

// appendQuoted appends text as a JSON string.
func appendQuoted(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	return b
}
