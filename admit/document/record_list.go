package document

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// recordList records the difference between two lists. Elements that are in both keep what the Go type does not know.
func (v *Value) recordList(before, after reflect.Value, mergeKey string) {
	elements := slices.Collect(v.Elements())
	if len(elements) != before.Len() {
		return // the document has an error, or before was not decoded from it
	}
	matched := matching(before, after, mergeKey)
	for i, at := range matched.was {
		if at >= 0 {
			elements[at].record(before.Index(at), after.Index(i), tags{})
		}
	}
	v.Rearrange(matched.was, func(i int) any { return after.Index(i).Interface() })
}

// Rearrange leaves some elements of the array here, in a new order, and adds others. was has the place of each one until now,
// or -1 for one that is new, which added returns.
func (v *Value) Rearrange(was []int, added func(i int) any) {
	elements := slices.Collect(v.Elements())
	stay := slices.DeleteFunc(slices.Clone(was), func(at int) bool { return at < 0 })
	if !slices.IsSorted(stay) {
		v.Set(inOrder(elements, was, added)) // because no edit moves elements
		return
	}
	for at, element := range elements {
		if _, stays := slices.BinarySearch(stay, at); !stays {
			element.Remove()
		}
	}
	var next *Value
	for i, at := range slices.Backward(was) {
		switch {
		case at >= 0:
			next = elements[at]
		case next == nil:
			next = v.Append(added(i))
		default:
			next = v.InsertBefore(next, added(i))
		}
	}
}

// inOrder returns a whole list in its new order.
func inOrder(elements []*Value, was []int, added func(i int) any) []any {
	list := make([]any, len(was))
	for i, at := range was {
		if at >= 0 {
			list[i] = json.RawMessage(elements[at].Bytes())
		} else {
			list[i] = added(i)
		}
	}
	return list
}

// matching finds for each element of after the corresponding element of before: an equal one; else one with the same
// merge key; else, in a list without merge key that kept its length, the one at the same place.
func matching(before, after reflect.Value, mergeKey string) matches {
	m := matches{was: make([]int, after.Len()), used: make([]bool, before.Len())}
	for i := range m.was {
		m.was[i] = -1
		if i < before.Len() && reflect.DeepEqual(before.Index(i).Interface(), after.Index(i).Interface()) {
			m.match(i, i)
		}
	}
	if m.full() {
		return m
	}
	m.by(before, after, func(element reflect.Value) string { return string(encode(element.Interface())) })
	if mergeKey != "" {
		m.by(before, after, func(element reflect.Value) string { return string(encode(member(element, mergeKey))) })
	} else if before.Len() == after.Len() {
		m.byPlace()
	}
	return m
}

// matches are the elements matched so far.
type matches struct {
	was  []int  // for each new element, the index of the old one, or -1
	used []bool // for each old element
}

func (m *matches) match(is, was int) { m.was[is], m.used[was] = was, true }

func (m *matches) full() bool { return !slices.Contains(m.was, -1) }

// by matches the remaining elements that have the same id, in order.
func (m *matches) by(before, after reflect.Value, id func(reflect.Value) string) {
	places := map[string][]int{}
	for at, used := range m.used {
		if !used {
			text := id(before.Index(at))
			places[text] = append(places[text], at)
		}
	}
	for i, at := range m.was {
		if at >= 0 || len(places) == 0 {
			continue
		}
		if text := id(after.Index(i)); len(places[text]) > 0 {
			m.match(i, places[text][0])
			places[text] = places[text][1:]
		}
	}
}

func (m *matches) byPlace() {
	for i, at := range m.was {
		if at < 0 && !m.used[i] {
			m.match(i, i)
		}
	}
}

// member returns a field of a struct by its name in JSON; nil if there is none.
func member(object reflect.Value, name string) any {
	for i := range object.NumField() {
		switch t := tagsOf(object.Type().Field(i)); {
		case t.inline:
			if value := member(object.Field(i), name); value != nil {
				return value
			}
		case strings.EqualFold(t.name, name):
			return object.Field(i).Interface()
		}
	}
	return nil
}
