package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NamespaceReaders returns the paths of what needs to know the labels or annotations of Namespaces. Where they are not
// known, it would not do what it says.
func (p *Policy) NamespaceReaders() (paths []string) {
	var file map[string]any
	for _, sections := range []any{p.others, p} {
		text, err := json.Marshal(sections)
		if err != nil || json.Unmarshal(text, &file) != nil {
			return nil // a policy that was decoded can be encoded
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if name == "nodeSelector" {
			paths = append(paths, name) // of the namespace
			continue
		}
		paths = namespaceReaders(file[name], field.NewPath(name), paths)
	}
	return paths
}

// namespaceReaders adds the paths of a part of the policy file.
func namespaceReaders(part any, at *field.Path, paths []string) []string {
	switch part := part.(type) {
	case []any:
		for i, element := range part {
			paths = namespaceReaders(element, at.Index(i), paths)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(part)) {
			if readsNamespace(key, part[key]) {
				paths = append(paths, at.Child(key).String())
			} else {
				paths = namespaceReaders(part[key], at.Child(key), paths)
			}
		}
	}
	return paths
}

// readsNamespace reports whether a field needs the Namespace: a selector that selects some of them, a value that is
// taken from them, or an expression about them.
func readsNamespace(key string, value any) bool {
	switch key {
	case "namespaceSelector":
		selector, _ := value.(map[string]any)
		return len(selector) > 0
	case "fromNamespaceLabel", "fromNamespaceAnnotation":
		return true
	case "expression", "messageExpression":
		text, _ := value.(string)
		return strings.Contains(text, "namespaceObject")
	}
	return false
}
