package strategic

import (
	"encoding/json"
	"maps"
	"slices"

	"usher.dev/usher/admit/document"
)

// applyObject turns the object at v into the merged object want.
func (k mergeKeys) applyObject(v *document.Value, want, patch object) {
	for _, name := range concerned(v, patch) {
		kid := v.Get(name)
		merged, ok := want[name]
		switch {
		case patch[name] != nil && (!kid.Exists() || isEmptyList(kid)):
			applyNew(kid, patch[name])
		case ok:
			k.apply(kid, name, merged, patchOf(patch, name))
		case kid.Exists() && !isEmptyList(kid):
			kid.Remove()
		}
	}
	if patch != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(want)) { // members added by several patches of one element
		if kid := v.Get(name); !present(kid) {
			kid.Set(clean(want[name]))
		}
	}
}

// applyNew sets an absent member to its part of the patch. The merge of Kubernetes drops a part with $patch: replace if
// there is nothing to replace; here its content is used.
func applyNew(v *document.Value, patch any) {
	if !isDeleted(patch) {
		v.Set(clean(patch))
	}
}

// apply turns the value of a member into the merged value want.
func (k mergeKeys) apply(v *document.Value, name string, want, patch any) {
	switch want := want.(type) {
	case object:
		part, _ := patch.(object)
		if _, replaced := part[wholeDirective]; !replaced && v.Kind() == document.Object {
			k.member(name).applyObject(v, want, part)
			return
		}
	case []any:
		keys, key := k.list(name)
		if part, _ := patch.([]any); key != "" && slices.ContainsFunc(want, isMarked) {
			keys.applyList(v, key, want, part)
			return
		}
	}
	v.Set(clean(want))
}

func isMarked(element any) bool {
	part, _ := element.(object)
	_, ok := part[markKey]
	return ok
}

// applyList turns the list at v into the merged list want. Existing elements keep all members that the patch does not
// name.
func (k mergeKeys) applyList(v *document.Value, key string, want, patch []any) {
	elements := slices.Collect(v.Elements())
	now := make([]*document.Value, len(want)) // for each element of want, the existing element, or nil
	var order []int
	merged := map[any]bool{} // by merge key; of several elements with one key only the first is merged
	for i, element := range want {
		if !isMarked(element) {
			continue
		}
		part := element.(object)
		at := part[markKey].(int)
		delete(part, markKey)
		now[i], order = elements[at], append(order, at)
		if match, ok := matchOf(part[key], key, patch); ok && !merged[part[key]] {
			merged[part[key]] = true
			k.applyObject(elements[at], part, match)
		}
	}
	if !slices.IsSorted(order) {
		v.Set(inOrder(now, want))
		return
	}
	for at, element := range elements {
		if !slices.Contains(order, at) {
			element.Remove()
		}
	}
	insertNew(v, now, want)
}

// inOrder returns the whole list in its new order. It is used if elements change places, because no edit moves
// elements.
func inOrder(now []*document.Value, want []any) []any {
	list := make([]any, len(want))
	for i := range want {
		if now[i] != nil {
			list[i] = json.RawMessage(now[i].Bytes())
		} else {
			list[i] = clean(want[i])
		}
	}
	return list
}

// insertNew inserts the new elements between the existing ones.
func insertNew(v *document.Value, now []*document.Value, want []any) {
	var next *document.Value
	for i := len(want) - 1; i >= 0; i-- {
		switch {
		case now[i] != nil:
			next = now[i]
		case next == nil:
			next = v.Append(clean(want[i]))
		default:
			next = v.InsertBefore(next, clean(want[i]))
		}
	}
}
