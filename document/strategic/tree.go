package strategic

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// object is a decoded JSON object.
type object = map[string]any

// encode returns the JSON of a tree, which always has one.
func encode(tree any) []byte {
	raw, err := json.Marshal(tree)
	if err != nil {
		panic(fmt.Sprintf("strategic: a tree that has no JSON: %v", err))
	}
	return raw
}

// copyOf copies a patch for the merge of Kubernetes, which changes it. A list of keys to retain retains our mark too.
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

// clean gives a part that is new as if it had been merged into an empty one: without directives, what is to be deleted, and nulls.
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

// isReplaceMark reports whether a list element only says that the list is to be replaced.
func isReplaceMark(element any) bool {
	part, _ := element.(object)
	return len(part) == 1 && part[wholeDirective] == replaceWhole
}

// skeleton is what an object has at least for the patch to have something to work on.
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
