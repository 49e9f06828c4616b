package config

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NamespaceReaders returns the paths of what needs to know the labels or annotations of Namespaces. Where they are not
// known, it would not do what it says.
func (p *Policy) NamespaceReaders() (paths []string) {
	for _, part := range p.parts {
		var value any
		text, err := json.Marshal(part.value)
		if err != nil || json.Unmarshal(text, &value) != nil {
			return nil // a policy that was decoded can be encoded
		}
		paths = part.namespaceReaders(part.name, value, field.NewPath(part.name), paths)
	}
	return paths
}

// namespaceReaders adds the paths of a field of the section, and of what is in it.
func (p *part) namespaceReaders(name string, value any, at *field.Path, paths []string) []string {
	members, isMap := value.(map[string]any)
	if name == "namespaceSelector" && len(members) > 0 || p.readsNamespace != nil && p.readsNamespace(name, value) {
		return append(paths, at.String())
	}
	if elements, isList := value.([]any); isList {
		for i, element := range elements {
			paths = p.namespaceReaders("", element, at.Index(i), paths)
		}
	}
	if isMap {
		for _, key := range slices.Sorted(maps.Keys(members)) {
			paths = p.namespaceReaders(key, members[key], at.Child(key), paths)
		}
	}
	return paths
}
