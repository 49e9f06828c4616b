package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// Names returns the name that a reader knows a member of an object by, and the names in its value. A nil Names knows no
// names. The elements of an array have the names of the array.
type Names func(key string) (name string, inside Names)

// ParseFolded is ParseJSONText for text that Koordinator decodes with encoding/json. It accepts what that accepts:
// names in any case, and of members that are given twice the last. The warnings name these places, below at.
func ParseFolded[T any](at *field.Path, text string) (value T, warnings []string, err error) {
	folded, warnings := Fold(at, text, namesIn(reflect.TypeFor[T]()))
	value, err = ParseJSONText[T](folded)
	return value, warnings, err
}

// Fold returns a text in which each member has the name that its reader knows, once. Text that ParseJSONText refuses stays as it
// is: it is not JSON, or has too many values.
func Fold(at *field.Path, text string, names Names) (folded string, warnings []string) {
	if !json.Valid([]byte(text)) { // its nesting is bounded too
		return text, nil
	}
	f := folder{from: json.NewDecoder(strings.NewReader(text))}
	f.from.UseNumber()
	value := f.read(at, nil, names)
	if len(f.warnings) == 0 || f.full() {
		return text, nil
	}
	var to bytes.Buffer
	encoder := json.NewEncoder(&to)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return text, nil // does not happen: the value was JSON
	}
	return to.String(), f.warnings
}

// maxFoldWarnings bounds the warnings about one text.
const maxFoldWarnings = 20

type folder struct {
	from     *json.Decoder
	values   int // that were read
	warnings []string
}

// full reports whether there are too many values to go on.
func (f *folder) full() bool { return f.values > document.MaxDecoded }

func (f *folder) warnf(at *field.Path, format string, args ...any) {
	if len(f.warnings) < maxFoldWarnings {
		f.warnings = append(f.warnings, fmt.Sprintf("%s: %s", at, fmt.Sprintf(format, args...)))
	}
}

// read reads the next value. As encoding/json does, it adds the members of an object to those that were there before.
func (f *folder) read(at *field.Path, before any, names Names) any {
	f.values++
	token, _ := f.from.Token() // the text is valid
	switch token {
	case json.Delim('['):
		elements := []any{}
		for f.from.More() && !f.full() {
			elements = append(elements, f.read(at.Index(len(elements)), nil, names))
		}
		_, _ = f.from.Token()
		return elements
	case json.Delim('{'):
		members, _ := before.(map[string]any)
		if members == nil {
			members = map[string]any{}
		}
		f.readMembers(at, members, names)
		return members
	}
	return token
}

func (f *folder) readMembers(at *field.Path, members map[string]any, names Names) {
	seen := map[string]bool{}
	for f.from.More() && !f.full() {
		token, _ := f.from.Token()
		key, _ := token.(string)
		name, inside := key, Names(nil)
		if names != nil {
			name, inside = names(key)
		}
		here := at.Child(admit.Shorten(key, 81))
		if name != key {
			f.warnf(here, "is read, but should be written %s", name)
		}
		if seen[name] {
			f.warnf(here, "is there twice, and the last one counts; remove the others")
		}
		seen[name] = true
		members[name] = f.read(here, members[name], inside)
	}
	_, _ = f.from.Token()
}

// namesIn returns the names that encoding/json knows in a type without embedded fields.
func namesIn(t reflect.Type) Names {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return namesIn(t.Elem())
	case reflect.Map:
		return func(key string) (string, Names) { return key, namesIn(t.Elem()) }
	case reflect.Struct:
		return func(key string) (string, Names) {
			at := -1
			for i := range t.NumField() {
				name := nameOf(t.Field(i))
				if name == key {
					return key, namesIn(t.Field(i).Type)
				}
				if at < 0 && strings.EqualFold(name, key) {
					at = i
				}
			}
			if at < 0 {
				return key, nil
			}
			return nameOf(t.Field(at)), namesIn(t.Field(at).Type)
		}
	}
	return nil
}

// nameOf returns the name of a field in JSON.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
