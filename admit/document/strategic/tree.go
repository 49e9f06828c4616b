package strategic

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// object is a decoded JSON object.
type object = map[string]any

// encode returns a tree as JSON. It panics if that fails, which cannot happen for decoded JSON.
func encode(tree any) []byte {
	raw, err := json.Marshal(tree)
	if err != nil {
		panic(fmt.Sprintf("strategic: a tree that has no JSON: %v", err))
	}
	return raw
}

// copyOf copies a patch for the merge of Kubernetes, which modifies it. Lists of keys to retain also retain markKey.
func copyOf(tree any) any {
	switch tree := tree.(type) {
	case object:
		c := make(object, len(tree))
		for name, member := range tree {
			c[name] = copyOf(member)
		}
		if keys, ok := c[retainDirective].([]any); ok {
			c[retainDirective] = append(keys, markKey)
		}
		return c
	case []any:
		c := make([]any, len(tree), len(tree)+1)
		for i, element := range tree {
			c[i] = copyOf(element)
		}
		return c
	}
	return tree
}

// clean returns a new part as if it had been merged into an empty object: without directives, deletions and nulls.
func clean(tree any) any {
	switch tree := tree.(type) {
	case object:
		c := object{}
		for name, member := range tree {
			if !isDirective(name) && member != nil && !isDeleted(member) {
				c[name] = clean(member)
			}
		}
		return c
	case []any:
		c := []any{}
		for _, element := range tree {
			if !isDeleted(element) && !isReplaceMark(element) {
				c = append(c, clean(element))
			}
		}
		return c
	}
	return tree
}

func isDirective(name string) bool {
	_, beside := directiveFor(name)
	return beside || name == wholeDirective || name == retainDirective || name == markKey
}

func isDeleted(value any) bool {
	part, _ := value.(object)
	return part[wholeDirective] == deleteWhole
}

// isReplaceMark reports whether a list element consists only of the directive to replace the list.
func isReplaceMark(element any) bool {
	part, _ := element.(object)
	return len(part) == 1 && part[wholeDirective] == replaceWhole
}

// skeleton returns a minimal object that has everything the patch names, so that every directive has something to work
// on.
func skeleton(tree any) any {
	switch tree := tree.(type) {
	case object:
		s := object{}
		for name, member := range tree {
			if list, ok := strings.CutPrefix(name, deleteDirective); ok && tree[list] == nil {
				name = list
			}
			if !isDirective(name) && member != nil {
				s[name] = skeleton(member)
			}
		}
		return s
	case []any:
		s := []any{}
		for _, element := range tree {
			if part := skeleton(element); !reflect.DeepEqual(part, object{}) {
				s = append(s, part)
			}
		}
		return s
	}
	return tree
}
