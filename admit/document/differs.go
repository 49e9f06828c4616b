package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Differs returns the names of the fields of the JSON object of want that the object at v does not have with the same value, sorted,
// except one. What it has in addition is no difference, also in its lists.
func (v *Value) Differs(want any, except string) (names []string) {
	fields := treeOf(want)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != except && !contains(v.Get(name).Tree(), fields[name]) {
			names = append(names, name)
		}
	}
	return names
}

// treeOf returns a Go value as the members of its JSON object.
func treeOf(value any) map[string]any {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("document: a value that has no JSON: %v", err))
	}
	d, err := Parse(raw)
	if err != nil {
		panic(fmt.Sprintf("document: JSON that does not parse: %v", err))
	}
	defer d.Release()
	tree, _ := d.Root().Tree().(map[string]any)
	return tree
}

// contains reports whether all of want is in have: the members of objects, and the objects of lists in any order. Other
// lists, such as arguments, must be equal.
func contains(have, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		have, ok := have.(map[string]any)
		for name, value := range want {
			ok = ok && contains(have[name], value)
		}
		return ok
	case []any:
		have, ok := have.([]any)
		return ok && containsList(have, want)
	}
	return have == want
}

func containsList(have, want []any) bool {
	for i, value := range want {
		if _, object := value.(map[string]any); !object {
			if len(have) != len(want) || !contains(have[i], value) {
				return false
			}
		} else if !slices.ContainsFunc(have, func(h any) bool { return contains(h, value) }) {
			return false
		}
	}
	return true
}
