package strategic

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"usher.dev/usher/document"
)

// The directives of a strategic merge patch.
const (
	wholeDirective  = "$patch"
	retainDirective = "$retainKeys"
	orderDirective  = "$setElementOrder/"
	deleteDirective = "$deleteFromPrimitiveList/"
)

// What $patch asks for. It may also be merge, by Kubernetes' documents, but its merge refuses that.
const (
	replaceWhole = "replace"
	deleteWhole  = "delete"
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

// concerned are the members that a patch has something to say about, in order: so edits have the same order each time. A
// patch that lists what to retain, and no patch at all, concern every member.
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
