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
	now := make([]*Value, len(matched.was))
	for i, at := range matched.was {
		if at >= 0 {
			now[i] = elements[at]
			now[i].record(before.Index(at), after.Index(i), tags{})
		}
	}
	if !matched.inOrder() {
		v.Set(reordered(now, after)) // because no edit moves elements
		return
	}
	for at, element := range elements {
		if !matched.used[at] {
			element.Remove()
		}
	}
	v.insertNew(now, after)
}

// reordered returns a whole list in its new order.
func reordered(now []*Value, after reflect.Value) []any {
	list := make([]any, len(now))
	for i, element := range now {
		if element != nil {
			list[i] = json.RawMessage(element.Bytes())
		} else {
			list[i] = after.Index(i).Interface()
		}
	}
	return list
}

// insertNew inserts the new elements between those that are there.
func (v *Value) insertNew(now []*Value, after reflect.Value) {
	var next *Value
	for i := len(now) - 1; i >= 0; i-- {
		switch element := after.Index(i).Interface(); {
		case now[i] != nil:
			next = now[i]
		case next == nil:
			next = v.Append(element)
		default:
			next = v.InsertBefore(next, element)
		}
	}
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

// inOrder reports whether the matched elements have kept their order.
func (m *matches) inOrder() bool {
	return slices.IsSorted(slices.DeleteFunc(slices.Clone(m.was), func(at int) bool { return at < 0 }))
}

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
