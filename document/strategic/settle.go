package strategic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Contradiction is a list of plain values to which a patch adds what it also deletes from it. The merge of Kubernetes does
// either first, by chance, unless the patch also orders the list: then it deletes last. So the deletion always wins here.
type Contradiction struct {
	Path   *field.Path // of the directive that deletes, in the patch
	List   string      // the name of the list beside it
	Values []any       // what is both added and deleted
}

// settling goes once through a patch, when it is parsed, and makes of it one that gives the same each time and everywhere.
type settling struct {
	contradictions []Contradiction
	err            error // the first directive that cannot be carried out
}

func (s *settling) fail(at *field.Path, format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%s "+format, append([]any{at}, args...)...)
	}
}

func (s *settling) object(patch object, keys mergeKeys, at *field.Path) {
	if directive, ok := patch[wholeDirective]; ok && directive != replaceWhole && directive != deleteWhole {
		s.fail(at, "has %s: %v; it must be %s or %s", wholeDirective, directive, replaceWhole, deleteWhole)
	}
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		if list, ok := strings.CutPrefix(name, deleteDirective); ok {
			s.deletion(patch, list, keys.merges(list), at.Key(name))
		}
		if isDirective(name) {
			continue
		}
		switch part := patch[name].(type) {
		case object:
			s.object(part, keys.member(name), at.Child(name))
		case []any:
			of, key := keys.list(name)
			settled, split := s.list(part, of, key, at.Child(name))
			if patch[name] = settled; split {
				delete(patch, orderDirective+name) // it need not name what was the directive's; a list that is replaced has the patch's order
			}
		}
	}
}

// deletion lets what is deleted from a list of plain values win over what is added to it.
func (s *settling) deletion(patch object, list string, merges bool, at *field.Path) {
	deleted, ok := patch[deleteDirective+list].([]any)
	if !ok || slices.ContainsFunc(deleted, func(value any) bool { return !isPlain(value) }) {
		s.fail(at, "is not a list of plain values")
		return
	}
	gone := make(map[any]bool, len(deleted)) // a patch may name very many
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
	s.contradictions = append(s.contradictions, Contradiction{at, list, both})
	if patch[list] = left; len(left) == 0 && merges {
		delete(patch, list) // nothing is added; a list that is replaced becomes empty
	}
}

// list settles the elements of a list. One that has $patch: replace and content of its own becomes two: the content, and the
// directive, which is about the whole list. The merge of Kubernetes replaces the list and drops that content.
func (s *settling) list(list []any, keys mergeKeys, key string, at *field.Path) (settled []any, split bool) {
	settled = []any{}
	for i, element := range list {
		part, ok := element.(object)
		if ok {
			s.object(part, keys, at.Index(i))
		}
		if key != "" && part[wholeDirective] == replaceWhole {
			if part[key] == nil {
				element = object{wholeDirective: replaceWhole}
			} else {
				delete(part, wholeDirective)
				split = true
			}
		}
		settled = append(settled, element)
	}
	if split {
		settled = append(settled, object{wholeDirective: replaceWhole})
	}
	return settled, split
}
