// Package quantity implements exact, bounded quantities and ratios. It knows where Kubernetes objects have quantities,
// and which texts are too expensive to parse as one.
package quantity

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Place identifies the position of a value: the name of its member, and the name of the member that contains it. An
// element of a list has the place of the list.
type Place struct{ Parent, Name string }

// podLists are the names of the resource lists in a pod; resourceLists those in pods, nodes, reservations and quotas.
var (
	podLists      = []string{"requests", "limits", "overhead"}
	resourceLists = append([]string{"capacity", "allocatable", "allocated", "allocatedResources", "min", "max", "used", "hard"}, podLists...)
)

// InPod yields the texts of all quantities in a pod or its template, in order, with their paths below at. The pod is
// given as encoding/json decodes it with UseNumber.
func InPod(pod any, at *field.Path) iter.Seq2[*field.Path, string] {
	return func(yield func(*field.Path, string) bool) { walk(pod, at, Place{}, podLists, yield) }
}

// walk yields the quantities in the value at a place. It returns false if yield has returned false.
func walk(tree any, at *field.Path, place Place, lists []string, yield func(*field.Path, string) bool) bool {
	switch tree := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			member := at.Child(key)
			if slices.Contains(lists, place.Name) {
				member = at.Key(key)
			}
			if !walk(tree[key], member, Place{place.Name, key}, lists, yield) {
				return false
			}
		}
	case []any:
		for i, element := range tree {
			if !walk(element, at.Index(i), place, lists, yield) {
				return false
			}
		}
	case string:
		return !place.isQuantity(lists) || yield(at, tree)
	case json.Number:
		return !place.isQuantity(lists) || yield(at, string(tree))
	}
	return true
}

// isQuantity reports whether a text at the place is a quantity.
func (p Place) isQuantity(lists []string) bool {
	return slices.Contains(lists, p.Parent) || p == Place{"emptyDir", "sizeLimit"} || p == Place{"resourceFieldRef", "divisor"}
}

// resource.Quantity takes minutes and gigabytes for 1e-5000000, and cannot be interrupted. The API server has parsed
// the quantities of the types it knows; those in schemaless fields, and in reviews of other clients, are checked before
// they are decoded.

// Hostile returns a text in the value at a place of any object that resource.Quantity would take very long to parse; ""
// if there is none.
func Hostile(tree any, at Place) (text string) {
	walk(tree, nil, at, resourceLists, func(_ *field.Path, found string) bool {
		if exponent := strings.IndexAny(found, "eE"); len(found) > longest || exponent >= 0 && hugeExponent(found[exponent:]) {
			text = found
		}
		return text == ""
	})
	return text
}

// MayBeHostile reports whether JSON may contain a text that Hostile would return. It is fast, and false for nearly all
// JSON.
func MayBeHostile(raw []byte) bool {
	digits := 0
	for i, c := range raw {
		switch {
		case c >= '0' && c <= '9' || c == '.':
			if digits++; digits > longest {
				return true
			}
		case (c == 'e' || c == 'E') && digits > 0 && hugeExponent(string(raw[i:min(len(raw), i+8)])):
			return true
		default:
			digits = 0
		}
	}
	return false
}

// longest is the maximum number of digits of a quantity.
const longest = 64

// hugeExponent reports whether a text that begins with e or E continues with an exponent of more than two digits.
func hugeExponent(text string) bool {
	digits := 0
	for _, c := range strings.TrimLeft(text[1:], "+-") {
		if c < '0' || c > '9' {
			break
		}
		digits++
	}
	return digits > 2
}
