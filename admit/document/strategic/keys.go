package strategic

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"usher.dev/usher/admit/document"
)

// The directives of a strategic merge patch.
const (
	wholeDirective  = "$patch"
	retainDirective = "$retainKeys"
	orderDirective  = "$setElementOrder/"
	deleteDirective = "$deleteFromPrimitiveList/"
)

// The values of $patch. The documentation of Kubernetes also names merge, but its implementation refuses it.
const (
	replaceWhole = "replace"
	deleteWhole  = "delete"
)

// markKey holds the index of a list element during the merge, so that the element can be identified afterwards. It is
// not valid UTF-8, so it cannot occur in JSON.
const markKey = "\xff"

// mergeKeys says how lists of a Go type are merged. For fields that the type does not have, where the merge of
// Kubernetes would fail, objects are merged and lists replaced.
type mergeKeys struct {
	known strategicpatch.LookupPatchMeta
	err   *error // set for an element of a document that cannot be merged; a pointer, because the library copies the receiver
}

// LookupPatchMetadataForStruct implements strategicpatch.LookupPatchMeta for a member that is an object.
func (k mergeKeys) LookupPatchMetadataForStruct(name string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if k.known != nil {
		if sub, meta, err := k.known.LookupPatchMetadataForStruct(name); err == nil {
			return mergeKeys{sub, k.err}, meta, nil
		}
	}
	return mergeKeys{nil, k.err}, strategicpatch.PatchMeta{}, nil
}

// LookupPatchMetadataForSlice implements strategicpatch.LookupPatchMeta for a member that is a list.
func (k mergeKeys) LookupPatchMetadataForSlice(name string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if k.known != nil {
		if sub, meta, err := k.known.LookupPatchMetadataForSlice(name); err == nil {
			return mergeKeys{sub, k.err}, meta, nil
		}
	}
	return mergeKeys{nil, k.err}, strategicpatch.PatchMeta{}, nil
}

// Name returns the type's name, for messages.
func (k mergeKeys) Name() string {
	if k.known == nil {
		return "unknown"
	}
	return k.known.Name()
}

// member returns the merge keys of a member's value.
func (k mergeKeys) member(name string) mergeKeys {
	sub, _, _ := k.LookupPatchMetadataForStruct(name)
	return sub.(mergeKeys)
}

// list returns the merge key of a list and the merge keys of its elements; "" if the list is replaced, or merged as
// plain values.
func (k mergeKeys) list(name string) (mergeKeys, string) {
	sub, meta, _ := k.LookupPatchMetadataForSlice(name)
	if !k.merges(name) {
		return mergeKeys{}, ""
	}
	return sub.(mergeKeys), meta.GetPatchMergeKey()
}

// merges reports whether a list is merged, not replaced.
func (k mergeKeys) merges(name string) bool {
	_, meta, _ := k.LookupPatchMetadataForSlice(name)
	return slices.Contains(meta.GetPatchStrategies(), "merge")
}

// concerned returns the members that a patch concerns, sorted, so that edits have a fixed order. A nil patch, and a
// patch that lists what to retain, concern every member.
func concerned(v *document.Value, patch object) []string {
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

// directiveFor returns the list that a directive next to it applies to.
func directiveFor(name string) (list string, ok bool) {
	if list, ok = strings.CutPrefix(name, orderDirective); ok {
		return list, true
	}
	return strings.CutPrefix(name, deleteDirective)
}

// patchOf returns a patch's part for a member. A part that only sets the order is an empty list.
func patchOf(patch object, name string) any {
	part, ok := patch[name]
	if _, ordered := patch[orderDirective+name]; !ok && ordered {
		return []any{}
	}
	return part
}
