package strategic

import (
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
	was := make([]int, len(want))
	merged := map[any]bool{} // by merge key; of several elements with one key only the first is merged
	for i, element := range want {
		if was[i] = -1; !isMarked(element) {
			continue
		}
		part := element.(object)
		was[i] = part[markKey].(int)
		delete(part, markKey)
		if match, ok := matchOf(part[key], key, patch); ok && !merged[part[key]] {
			merged[part[key]] = true
			k.applyObject(elements[was[i]], part, match)
		}
	}
	v.Rearrange(was, func(i int) any { return clean(want[i]) })
}
