package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// StrategicPatch is a strategic merge patch, checked and parsed once. It is never changed, so that many requests can use
// it at the same time.
type StrategicPatch struct {
	tree object
	keys mergeKeys
}

type object = map[string]any

// ParseStrategicPatch reads a patch for objects of a Go type, of which like is any value. The type's tags say by which
// key a list is merged. A patch that never applies is an error: one that is no object, that contradicts itself, or whose
// parts have other types than the object's.
func ParseStrategicPatch(raw []byte, like any) (*StrategicPatch, error) {
	d, err := Parse(raw) // refuses duplicate keys, which encoding/json does not
	if err != nil {
		return nil, err
	}
	defer d.Release()
	tree, ok := decode(d.root).(object)
	if !ok {
		return nil, fmt.Errorf("is %s, not an object", kindNames[d.root.kind()])
	}
	if _, replaces := tree[wholeDirective]; replaces {
		return nil, errors.New("has $patch at its top, which drops the whole object; put it further down")
	}
	known, err := strategicpatch.NewPatchMetaFromStruct(like)
	if err != nil {
		return nil, err
	}
	p := &StrategicPatch{tree, mergeKeys{known: known}}
	return p, p.check(reflect.TypeOf(like))
}

// check applies the patch to an empty object and to one that has all that the patch names.
func (p *StrategicPatch) check(like reflect.Type) error {
	for _, base := range []object{{}, skeleton(p.tree).(object)} {
		merged, err := p.mergeInto(base)
		if err != nil {
			return err
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(encode(clean(merged)), reflect.New(like).Interface()); err != nil {
			return errors.New(decodeProblem(err))
		}
	}
	return nil
}

// UnknownFields names what the patch has and the Go type does not know, which may be a mistake in writing.
func (p *StrategicPatch) UnknownFields(like any) (unknown []string) {
	into := reflect.New(reflect.TypeOf(like)).Interface()
	problems, _ := kjson.UnmarshalStrict(encode(skeleton(p.tree)), into, kjson.DisallowUnknownFields)
	for _, problem := range problems {
		unknown = append(unknown, problem.Error())
	}
	return unknown
}

// Sets tells whether the patch puts something other than null at a place.
func (p *StrategicPatch) Sets(names ...string) bool {
	var at any = p.tree
	for _, name := range names {
		in, ok := at.(object)
		if !ok {
			return false
		}
		at = in[name]
	}
	return at != nil
}

// Members are the names that the patch has at a place, in order.
func (p *StrategicPatch) Members(names ...string) []string {
	at := p.tree
	for _, name := range names {
		at, _ = at[name].(object)
	}
	return slices.Sorted(maps.Keys(at))
}

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

// The directives of a strategic merge patch.
const (
	wholeDirective  = "$patch"
	retainDirective = "$retainKeys"
	orderDirective  = "$setElementOrder/"
	deleteDirective = "$deleteFromPrimitiveList/"
)

// markKey holds the index of a list element while it is merged, so that we know it again. No JSON has such a key: it is
// not UTF-8.
const markKey = "\xff"

// mergeKeys says how lists of a Go type are merged. Where the type does not know a field, objects are merged and lists
// replaced: the merge of Kubernetes would stop there.
type mergeKeys struct {
	known   strategicpatch.LookupPatchMeta
	trouble *error // where to say which element of a document cannot be merged
}

// LookupPatchMetadataForStruct is asked for a member that is an object.
func (k mergeKeys) LookupPatchMetadataForStruct(name string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if k.known != nil {
		if sub, meta, err := k.known.LookupPatchMetadataForStruct(name); err == nil {
			return mergeKeys{sub, k.trouble}, meta, nil
		}
	}
	return mergeKeys{nil, k.trouble}, strategicpatch.PatchMeta{}, nil
}

// LookupPatchMetadataForSlice is asked for a member that is a list.
func (k mergeKeys) LookupPatchMetadataForSlice(name string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if k.known != nil {
		if sub, meta, err := k.known.LookupPatchMetadataForSlice(name); err == nil {
			return mergeKeys{sub, k.trouble}, meta, nil
		}
	}
	return mergeKeys{nil, k.trouble}, strategicpatch.PatchMeta{}, nil
}

// Name is for messages.
func (k mergeKeys) Name() string {
	if k.known == nil {
		return "unknown"
	}
	return k.known.Name()
}

// member gives the keys of what a member holds.
func (k mergeKeys) member(name string) mergeKeys {
	sub, _, _ := k.LookupPatchMetadataForStruct(name)
	return sub.(mergeKeys)
}

// list gives the merge key of a list and the keys of its elements; "" if the list is replaced, or merged as plain values.
func (k mergeKeys) list(name string) (mergeKeys, string) {
	sub, meta, _ := k.LookupPatchMetadataForSlice(name)
	if !slices.Contains(meta.GetPatchStrategies(), "merge") {
		return mergeKeys{}, ""
	}
	return sub.(mergeKeys), meta.GetPatchMergeKey()
}

// concerned are the members that a patch has something to say about, in order: so edits have the same order each time. A
// patch that lists what to retain, and no patch at all, concern every member.
func concerned(v *Value, patch object) []string {
	names := map[string]bool{}
	for name := range patch {
		if list, ok := directiveFor(name); ok {
			name = list
		}
		if name != wholeDirective && name != retainDirective {
			names[name] = true
		}
	}
	if _, retains := patch[retainDirective]; retains || patch == nil {
		for name := range v.Members() {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// directiveFor gives the list that a directive beside it is about.
func directiveFor(name string) (list string, ok bool) {
	if list, ok = strings.CutPrefix(name, orderDirective); ok {
		return list, true
	}
	return strings.CutPrefix(name, deleteDirective)
}

// patchOf is a patch's part for a member; an order alone is a part without elements.
func patchOf(patch object, name string) any {
	part, ok := patch[name]
	if _, ordered := patch[orderDirective+name]; !ok && ordered {
		return []any{}
	}
	return part
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
	switch a.(type) {
	case string, json.Number, bool:
		return a == b
	}
	return false
}

// takeObject makes the object at v what was merged.
func (k mergeKeys) takeObject(v *Value, want, patch object) {
	for _, name := range concerned(v, patch) {
		kid := v.Get(name)
		merged, ok := want[name]
		switch {
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
	for i, element := range want {
		if !isMarked(element) {
			continue
		}
		part := element.(object)
		at := part[markKey].(int)
		delete(part, markKey)
		now[i], order = elements[at], append(order, at)
		if mate, ok := mateOf(part[key], key, patch); ok {
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

// decode gives the tree of a value, with numbers as they are written.
func decode(v *Value) any {
	switch v.kind() {
	case 0, 'n':
		return nil
	case '"':
		return v.Text()
	case 't', 'f':
		return v.kind() == 't'
	case '0':
		return json.Number(v.base)
	case '[':
		list := []any{}
		for element := range v.Elements() {
			list = append(list, decode(element))
		}
		return list
	}
	tree := object{}
	for name, member := range v.Members() {
		tree[name] = decode(member)
	}
	return tree
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

// clean drops what the merge leaves behind in parts that are new: directives, what is marked as deleted, and nulls.
func clean(tree any) any {
	switch tree := tree.(type) {
	case object:
		c := object{}
		for name, member := range tree {
			if !isDirective(name) && member != nil && !isDropped(member) {
				c[name] = clean(member)
			}
		}
		return c
	case []any:
		c := []any{}
		for _, element := range tree {
			if !isDropped(element) {
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

func isDropped(value any) bool {
	part, _ := value.(object)
	_, ok := part[wholeDirective]
	return ok
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
