package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/nearest"
)

// checkShape returns every value that does not have the type of its field, and every field that does not exist. value is JSON decoded
// into an any; t is the type that it is for, and most is how many elements a list or a mapping may have. The decoder would stop at the
// first problem, and name a Go type.
func checkShape(value any, t reflect.Type, most int, at *field.Path) field.ErrorList {
	if value == nil { // null leaves a field out
		return nil
	}
	if made := reflect.New(t).Interface(); isOwnReader(made) {
		return readSelf(value, made, at)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return checkShape(value, t.Elem(), most, at)
	case reflect.Struct:
		return checkStruct(value, t, at)
	case reflect.Map:
		return checkMap(value, t.Elem(), most, at)
	case reflect.Slice:
		return checkList(value, t.Elem(), most, at)
	}
	return checkScalar(value, t.Kind(), at)
}

// isOwnReader reports whether a type decodes itself, such as a mode.
func isOwnReader(made any) bool {
	_, reads := made.(json.Unmarshaler)
	_, readsText := made.(encoding.TextUnmarshaler)
	return reads || readsText
}

func readSelf(value any, into any, at *field.Path) field.ErrorList {
	raw, err := json.Marshal(value)
	if err != nil {
		return field.ErrorList{field.Invalid(at, abbreviate(value), err.Error())}
	}
	if reader, ok := into.(json.Unmarshaler); ok {
		err = reader.UnmarshalJSON(raw)
	} else if text, isText := value.(string); isText {
		err = into.(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	} else {
		return typeError(value, "a string", at)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, abbreviate(value), err.Error())}
	}
	return nil
}

func checkStruct(value any, t reflect.Type, at *field.Path) (problems field.ErrorList) {
	members, ok := value.(map[string]any)
	if !ok {
		return typeError(value, "a mapping of "+strings.Join(fieldNames(t), ", "), at)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if len(problems) > maxProblems {
			break
		}
		if f, found := fieldNamed(t, name); found {
			problems = append(problems, checkMember(members, name, f.Type, Most(f.Tag), child(at, name))...)
		} else {
			problems = append(problems, unknownField(name, fieldNames(t), at))
		}
	}
	return problems
}

func checkMap(value any, of reflect.Type, most int, at *field.Path) (problems field.ErrorList) {
	members, ok := value.(map[string]any)
	if !ok {
		return typeError(value, "a mapping", at)
	}
	if problems = tooMany(len(members), most, at); problems != nil {
		return problems
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		problems = append(problems, checkMember(members, key, of, MaxElements, at.Key(key))...)
	}
	return problems
}

// checkMember checks a member of a mapping. A bad value of a type that decodes itself is removed: it would end the decoding of the file, and
// what follows it would seem to be missing.
func checkMember(members map[string]any, name string, t reflect.Type, most int, at *field.Path) field.ErrorList {
	problems := checkShape(members[name], t, most, at)
	if len(problems) > 0 && isOwnReader(reflect.New(t).Interface()) {
		delete(members, name)
	}
	return problems
}

func checkList(value any, of reflect.Type, most int, at *field.Path) (problems field.ErrorList) {
	elements, ok := value.([]any)
	if !ok {
		return typeError(value, "a list", at)
	}
	if problems = tooMany(len(elements), most, at); problems != nil {
		return problems
	}
	for i, element := range elements {
		if len(problems) > maxProblems {
			break
		}
		problems = append(problems, checkShape(element, of, MaxElements, at.Index(i))...)
	}
	return problems
}

func checkScalar(value any, want reflect.Kind, at *field.Path) field.ErrorList {
	text, isText := value.(string)
	number, isNumber := value.(float64)
	_, isBool := value.(bool)
	switch want {
	case reflect.String:
		if !isText {
			return typeError(value, "a string", at)
		}
	case reflect.Bool:
		if !isBool {
			return typeError(value, "a boolean", at)
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if isText {
			return field.ErrorList{field.TypeInvalid(at, text, "must be a whole number, without quotes")}
		}
		if !isNumber || number != float64(int64(number)) {
			return typeError(value, "a whole number", at)
		}
	}
	return nil
}

// typeError returns the problem of a value that has another type than its field. A number or a truth value where text is wanted lacks quotes.
func typeError(value any, want string, at *field.Path) field.ErrorList {
	found, remedy := "a mapping", ""
	switch v := value.(type) {
	case string:
		found = "a string"
	case bool: // also of the words yes, no, on and off
		found, remedy = "a boolean", "; quote it: YAML reads y, n, yes, no, on and off as booleans"
	case float64:
		found, remedy = "a number", fmt.Sprintf("; quote it: \"%v\"", v)
	case []any:
		found = "a list"
	}
	if want != "a string" {
		remedy = ""
	}
	return field.ErrorList{field.TypeInvalid(at, abbreviate(value), "must be "+want+", but is "+found+remedy)}
}

// abbreviate returns a value as a problem quotes it: nothing of what is large.
func abbreviate(value any) any {
	switch value.(type) {
	case []any:
		return "[...]"
	case map[string]any:
		return "{...}"
	}
	return value
}

func unknownField(name string, known []string, at *field.Path) *field.Error {
	detail := "unknown field; the known fields are " + strings.Join(known, ", ")
	if best := nearest.Of(name, known); best != "" {
		detail = "unknown field; did you mean " + best + "?"
	}
	return field.Forbidden(child(at, name), detail)
}

// child returns the path of a field; at is nil for the fields of the file.
func child(at *field.Path, name string) *field.Path {
	if at == nil {
		return field.NewPath(name)
	}
	return at.Child(name)
}

// fieldNamed returns the field of a struct by its name in JSON.
func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// fieldNames returns the names that the fields of a struct have in JSON, in order.
func fieldNames(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
			names = append(names, tag)
		}
	}
	return names
}
