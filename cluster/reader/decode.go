package reader

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MalformedError is the error of an object that is not as its kind has to be. Only files have such objects.
type MalformedError struct{ Object, Why string }

func (e *MalformedError) Error() string { return e.Object + ": " + e.Why }

// Decode decodes an object. The error of one that has a name is a MalformedError. Where a value has a wrong type, the rest of the object is
// decoded all the same.
func Decode(raw json.RawMessage, into any) error {
	err := WrongType(json.Unmarshal(raw, into))
	var is metav1.PartialObjectMetadata
	if err == nil || json.Unmarshal(raw, &is) != nil || is.Name == "" {
		return err
	}
	return &MalformedError{strings.TrimSpace(is.Kind + " " + is.Name), err.Error()}
}

// WrongType returns a decoder's error of a wrong type in words that name the field, and no Go type.
func WrongType(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	path := strings.Split(wrong.Field, ".")
	for i, name := range path {
		if name != "" { // a Go name, where there is no other
			path[i] = strings.ToLower(name[:1]) + name[1:]
		}
	}
	return fmt.Errorf("%s: must be %s, but is %s", strings.Join(path, "."), wanted(wrong.Type), found(wrong.Value))
}

// wanted names what is decoded as a Go type.
func wanted(is reflect.Type) string {
	switch is.Kind() {
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	}
	return "a number"
}

// found names a kind of JSON value.
func found(kind string) string {
	switch {
	case kind == "object":
		return "a mapping"
	case kind == "array":
		return "a list"
	case kind == "string":
		return "a string"
	case kind == "bool":
		return "a boolean"
	case strings.HasPrefix(kind, "number "): // the number follows
		return "another number"
	}
	return "a number"
}
