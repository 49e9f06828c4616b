package strategic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"usher.dev/usher/admit/document"
)

// extractObject returns the part of the object at v that the patch concerns.
func (k mergeKeys) extractObject(v *document.Value, patch object) object {
	have := object{}
	if !v.CanBe(document.Object) {
		return have
	}
	for _, name := range concerned(v, patch) {
		if kid := v.Get(name); present(kid) && !isEmptyList(kid) {
			have[name] = k.extract(kid, name, patchOf(patch, name))
		}
	}
	return have
}

// present reports whether there is a value at v, possibly null.
func present(v *document.Value) bool { return v.Kind() != 0 }

// isEmptyList reports whether v is an empty list, which is treated as absent: the merge of Kubernetes fails on an empty
// list for which the patch only sets the order.
func isEmptyList(v *document.Value) bool {
	return v.Kind() == document.Array && len(slices.Collect(v.Elements())) == 0
}

// extract returns the part of a member's value that its part of the patch concerns.
func (k mergeKeys) extract(v *document.Value, name string, patch any) any {
	switch patch := patch.(type) {
	case object:
		if v.CanBe(document.Object) && v.Kind() == document.Object {
			return k.member(name).extractObject(v, patch)
		}
		return nil
	case []any:
		if keys, key := k.list(name); key != "" {
			return keys.extractList(v, key, patch)
		}
	}
	return v.Tree()
}

// extractList returns the elements with the parts that the patch concerns; for most of them this is only the merge key.
func (k mergeKeys) extractList(v *document.Value, key string, patch []any) any {
	if !v.CanBe(document.Array) || v.Kind() != document.Array {
		return nil
	}
	have := []any{}
	for element := range v.Elements() {
		if element.Kind() != document.Object || !element.Get(key).Exists() {
			*k.err = fmt.Errorf("%s has no %s, by which the patch would know it", element.Path(), key)
			return nil
		}
		part := object{key: element.Get(key).Tree()}
		if match, ok := matchOf(part[key], key, patch); ok {
			maps.Copy(part, k.extractObject(element, match))
		}
		part[markKey] = len(have)
		have = append(have, part)
	}
	return have
}

// matchOf returns the patch's element for the element with the given merge key. If there are several, match is nil,
// which is treated as a patch that concerns every member.
func matchOf(id any, key string, patch []any) (match object, found bool) {
	for _, element := range patch {
		candidate, ok := element.(object)
		if !ok || !sameKey(candidate[key], id) {
			continue
		}
		if found {
			return nil, true
		}
		match, found = candidate, true
	}
	return match, found
}

// sameKey reports whether two merge keys, which are strings or numbers, are equal.
func sameKey(a, b any) bool {
	return isPlain(a) && a == b
}

// isPlain reports whether a value is neither an object nor a list nor null.
func isPlain(value any) bool {
	switch value.(type) {
	case string, json.Number, bool:
		return true
	}
	return false
}
