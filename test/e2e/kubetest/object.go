package kubetest

import (
	"encoding/json"
)

// Object returns the decoded body.
func (r *Response) Object() (Object, error) {
	var o Object
	err := json.Unmarshal(r.Body, &o)
	return o, err
}

// Object is decoded JSON.
type Object map[string]any

// Decode decodes JSON that a test contains.
func Decode(text string) (o Object) {
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	return o
}

// Encode returns a value that can be encoded as JSON.
func Encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// At returns the value at a path of keys and list indices, or nil.
func (o Object) At(path ...any) any {
	var at any = map[string]any(o)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := at.(map[string]any)
			at = m[step]
		case int:
			list, _ := at.([]any)
			if step < 0 || step >= len(list) {
				return nil
			}
			at = list[step]
		}
	}
	return at
}

// String returns the string at a path, or "".
func (o Object) String(path ...any) string {
	text, _ := o.At(path...).(string)
	return text
}

// List returns the objects in the list at a path.
func (o Object) List(path ...any) []Object {
	list, _ := o.At(path...).([]any)
	var objects []Object
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			objects = append(objects, m)
		}
	}
	return objects
}
