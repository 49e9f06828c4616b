package strategic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Contradiction is a list of plain values to which a patch adds values that it also deletes from it. The merge of
// Kubernetes does either first, at random, unless the patch also orders the list; then it deletes last. Here the
// deletion always wins.
type Contradiction struct {
	Path   *field.Path // the path of the deleting directive in the patch
	List   string      // the name of the list next to it
	Values []any       // the values that are both added and deleted
}

// normalizer rewrites a parsed patch so that its result is always defined.
type normalizer struct {
	contradictions []Contradiction
	err            error // the first invalid directive
}

func (n *normalizer) fail(at *field.Path, format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf("%s "+format, append([]any{at}, args...)...)
	}
}

func (n *normalizer) object(patch object, keys mergeKeys, at *field.Path) {
	if directive, ok := patch[wholeDirective]; ok && directive != replaceWhole && directive != deleteWhole {
		n.fail(at, "has %s: %v; it must be %s or %s", wholeDirective, directive, replaceWhole, deleteWhole)
	}
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		if list, ok := strings.CutPrefix(name, deleteDirective); ok {
			n.deletion(patch, list, keys.merges(list), at.Key(name))
		}
		if isDirective(name) {
			continue
		}
		switch part := patch[name].(type) {
		case object:
			n.object(part, keys.member(name), at.Child(name))
		case []any:
			of, key := keys.list(name)
			normalized, split := n.list(part, of, key, at.Child(name))
			if patch[name] = normalized; split {
				delete(patch, orderDirective+name) // it may lack the new element; a replaced list has the patch's order anyway
			}
		}
	}
}

// deletion removes from the values that are added to a list of plain values those that are also deleted.
func (n *normalizer) deletion(patch object, list string, merges bool, at *field.Path) {
	deleted, ok := patch[deleteDirective+list].([]any)
	if !ok || slices.ContainsFunc(deleted, func(value any) bool { return !isPlain(value) }) {
		n.fail(at, "is not a list of plain values")
		return
	}
	gone := make(map[any]bool, len(deleted)) // a map, because a patch may have very many
	for _, value := range deleted {
		gone[value] = true
	}
	added, _ := patch[list].([]any)
	left, both := []any{}, []any(nil)
	for _, value := range added {
		if isPlain(value) && gone[value] {
			both = append(both, value)
		} else {
			left = append(left, value)
		}
	}
	if len(both) == 0 {
		return
	}
	n.contradictions = append(n.contradictions, Contradiction{at, list, both})
	if patch[list] = left; len(left) == 0 && merges {
		delete(patch, list) // nothing is added; without merge, the empty list stays and replaces the old one
	}
}

// list normalizes the elements of a list. An element that has $patch: replace and content of its own is split in two,
// the content and the directive, which applies to the whole list: the merge of Kubernetes would replace the list and
// drop the content.
func (n *normalizer) list(list []any, keys mergeKeys, key string, at *field.Path) (normalized []any, split bool) {
	normalized = []any{}
	for i, element := range list {
		part, ok := element.(object)
		if ok {
			n.object(part, keys, at.Index(i))
		}
		if key != "" && part[wholeDirective] == replaceWhole {
			if part[key] == nil {
				element = object{wholeDirective: replaceWhole}
			} else {
				delete(part, wholeDirective)
				split = true
			}
		}
		normalized = append(normalized, element)
	}
	if split {
		normalized = append(normalized, object{wholeDirective: replaceWhole})
	}
	return normalized, split
}
