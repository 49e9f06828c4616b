package handlers

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// patchOf returns the JSON Patch from what was sent to what the steps made of it, or nil if they changed nothing.
//
// A newer Kubernetes sends fields that our Go types lack: a patch from what was sent to our object, encoded, would remove them. And
// our types write empty fields that were not sent: a patch between two of our objects may not apply, and then the API server fails
// the request, whatever failurePolicy says. So the changes between two of our objects are made to a copy of what was sent.
func patchOf(raw []byte, before, after any) ([]byte, error) {
	var sent map[string]any
	was, err1 := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	is, err2 := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err := errors.Join(err1, err2, utiljson.Unmarshal(raw, &sent)); err != nil || reflect.DeepEqual(was, is) {
		return nil, err
	}
	from, err1 := json.Marshal(sent)
	to, err2 := json.Marshal(graft(sent, was, is))
	operations, err3 := jsonpatch.CreatePatch(from, to)
	patch, err4 := json.Marshal(operations)
	return patch, errors.Join(err1, err2, err3, err4)
}

// graft returns a copy of sent with what differs between before and after.
func graft(sent, before, after any) any {
	switch after := after.(type) {
	case map[string]any:
		doc, _ := sent.(map[string]any)
		old, _ := before.(map[string]any)
		result := map[string]any{}
		maps.Copy(result, doc)
		maps.DeleteFunc(result, func(key string, _ any) bool { return old[key] != nil && after[key] == nil })
		for key, value := range after {
			if !reflect.DeepEqual(old[key], value) {
				result[key] = graft(doc[key], old[key], value)
			}
		}
		return result
	case []any:
		doc, _ := sent.([]any)
		old, _ := before.([]any)
		old, result := slices.Clone(old), slices.Clone(after)
		for i, value := range after {
			if at := slices.IndexFunc(old, func(o any) bool { return same(o, value) }); at >= 0 && at < len(doc) {
				result[i], old[at] = graft(doc[at], old[at], value), nil // nil: each has one successor
			}
		}
		return result
	}
	return after
}

// same reports whether two elements of a list are equal or, as containers and variables may, have the same name.
func same(a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	return reflect.DeepEqual(a, b) || x["name"] != nil && x["name"] == y["name"]
}
