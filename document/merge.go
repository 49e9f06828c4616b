package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Merge applies a strategic merge patch to the object here. What it comes to is recorded as edits, part by part: only
// what the patch names is looked at, list elements are known by their merge key, and a new one is inserted where the
// patch wants it. An error means that what stands here does not fit together with the patch, for example an element
// without its merge key.
func (v *Value) Merge(p *StrategicPatch) error {
	var trouble error
	have := mergeKeys{p.keys.known, &trouble}.objectPart(v, p.tree)
	if v.doc.err != nil || trouble != nil {
		return trouble // the document's own error is found by whoever asks it
	}
	want, err := p.mergeInto(have)
	if err != nil {
		return err
	}
	p.keys.takeObject(v, want, p.tree)
	return nil
}

// mergeInto is the merge of Kubernetes. It changes base. Values that no list may have for a key make it panic, here an error.
func (p *StrategicPatch) mergeInto(base object) (merged object, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("cannot be merged: %v", problem)
		}
	}()
	return strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(base, copyOf(p.tree).(object), p.keys)
}

// objectPart gives of the object at v what the patch is about.
func (k mergeKeys) objectPart(v *Value, patch object) object {
	have := object{}
	if !v.is('{') {
		return have
	}
	for _, name := range concerned(v, patch) {
		if kid := v.Get(name); kid.exists() && !kid.isEmptyList() {
			have[name] = k.part(kid, name, patchOf(patch, name))
		}
	}
	return have
}

// isEmptyList tells of what counts as absent: the merge of Kubernetes fails on a list without elements that is only to
// be ordered.
func (v *Value) isEmptyList() bool {
	return v.kind() == '[' && len(slices.Collect(v.Elements())) == 0
}

// part gives of the value of a member what the patch for it is about.
func (k mergeKeys) part(v *Value, name string, patch any) any {
	switch patch := patch.(type) {
	case object:
		if v.is('{') && v.kind() == '{' {
			return k.member(name).objectPart(v, patch)
		}
		return nil
	case []any:
		if keys, key := k.list(name); key != "" {
			return keys.listPart(v, key, patch)
		}
	}
	return decode(v)
}

// listPart gives the elements with what the patch is about: of most only the merge key.
func (k mergeKeys) listPart(v *Value, key string, patch []any) any {
	if !v.is('[') || v.kind() != '[' {
		return nil
	}
	have := []any{}
	for element := range v.Elements() {
		if element.kind() != '{' || !element.Get(key).Exists() {
			*k.trouble = fmt.Errorf("%s has no %s, by which the patch would know it", element.Path(), key)
			return nil
		}
		part := object{key: decode(element.Get(key))}
		if mate, ok := mateOf(part[key], key, patch); ok {
			maps.Copy(part, k.objectPart(element, mate))
		}
		part[markKey] = len(have)
		have = append(have, part)
	}
	return have
}

// mateOf finds the element of a patch for the element with the given merge key. Several of them count as no patch at
// all: they concern every member.
func mateOf(id any, key string, patch []any) (mate object, found bool) {
	for _, element := range patch {
		candidate, ok := element.(object)
		if !ok || !sameKey(candidate[key], id) {
			continue
		}
		if found {
			return nil, true
		}
		mate, found = candidate, true
	}
	return mate, found
}

// sameKey compares merge keys, which are strings or numbers.
func sameKey(a, b any) bool {
	return isPlain(a) && a == b
}

// isPlain reports whether a value is neither an object nor a list nor null.
func isPlain(value any) bool {
	switch value.(type) {
	case string, json.Number, bool:
		return true
	}
	return false
}

// takeObject makes the object at v what was merged.
func (k mergeKeys) takeObject(v *Value, want, patch object) {
	for _, name := range concerned(v, patch) {
		kid := v.Get(name)
		merged, ok := want[name]
		switch {
		case patch[name] != nil && (!kid.Exists() || kid.isEmptyList()):
			takeNew(kid, patch[name])
		case ok:
			k.take(kid, name, merged, patchOf(patch, name))
		case kid.Exists() && !kid.isEmptyList():
			kid.Remove()
		}
	}
	if patch != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(want)) { // those that several patches of one element add
		if kid := v.Get(name); !kid.exists() {
			kid.Set(clean(want[name]))
		}
	}
}

// takeNew puts there what a patch has for an absent member. The merge of Kubernetes drops a part with $patch: replace where there is
// nothing to replace; here its content counts.
func takeNew(v *Value, patch any) {
	if !isDeleted(patch) {
		v.Set(clean(patch))
	}
}

// take makes the value of a member what was merged.
func (k mergeKeys) take(v *Value, name string, want, patch any) {
	switch want := want.(type) {
	case object:
		part, _ := patch.(object)
		if _, replaced := part[wholeDirective]; !replaced && v.kind() == '{' {
			k.member(name).takeObject(v, want, part)
			return
		}
	case []any:
		keys, key := k.list(name)
		if part, _ := patch.([]any); key != "" && slices.ContainsFunc(want, isMarked) {
			keys.takeList(v, key, want, part)
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

// takeList makes the list at v what was merged. Elements that were there stay the elements that they are, with all that
// nobody named.
func (k mergeKeys) takeList(v *Value, key string, want, patch []any) {
	elements := slices.Collect(v.Elements())
	now := make([]*Value, len(want)) // the element of each that was there
	var order []int
	merged := map[any]bool{} // by merge key: of several with one key the first is merged, and the others stay as they are
	for i, element := range want {
		if !isMarked(element) {
			continue
		}
		part := element.(object)
		at := part[markKey].(int)
		delete(part, markKey)
		now[i], order = elements[at], append(order, at)
		if mate, ok := mateOf(part[key], key, patch); ok && !merged[part[key]] {
			merged[part[key]] = true
			k.takeObject(elements[at], part, mate)
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

// inOrder is the list for elements that change places: there is no edit that moves.
func inOrder(now []*Value, want []any) []json.RawMessage {
	list := make([]json.RawMessage, len(want))
	for i := range want {
		if now[i] != nil {
			list[i] = now[i].Bytes()
		} else {
			list[i] = encode(clean(want[i]))
		}
	}
	return list
}

// insertNew puts the elements that were not there between those that were.
func insertNew(v *Value, now []*Value, want []any) {
	var next *Value
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
