// Package strategic applies strategic merge patches to documents.
//
// The merge itself is done by Kubernetes, which takes and returns whole decoded objects. To keep the object as the
// bytes that were sent, Merge
//
// 1. extracts from the object what the patch names (extract.go); for most list elements that is only the merge key, and
// a mark,
// 2. lets Kubernetes merge the patch into that part (merge.go),
// 3. writes the result back as edits (apply.go), identifying list elements by their marks.
//
// A patch is parsed and normalized once (patch.go, settle.go): where Kubernetes has no defined result, or does not do
// what its documentation says, normalizing makes the result definite. keys.go defines the directives and the merge keys
// of lists; tree.go works on decoded JSON.
//
// If a list of a patch has several parts for one element, no single part says what the element becomes: they are
// represented by a nil patch, which concerns every member.
package strategic

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"usher.dev/usher/admit/document"
)

// Merge applies a strategic merge patch to the object at v and records the result as edits. It only reads what the
// patch names. List elements are identified by their merge keys, and new ones are inserted where the patch wants them.
// It returns an error if the object does not fit the patch, for example because an element has no merge key.
func Merge(v *document.Value, p *Patch) error {
	var notMergeable error
	have := mergeKeys{p.keys.known, &notMergeable}.extractObject(v, p.tree)
	if v.Err() != nil || notMergeable != nil {
		return notMergeable // the document's own error is reported by Document.Err
	}
	want, err := p.mergeInto(have)
	if err != nil {
		return err
	}
	p.keys.applyObject(v, want, p.tree)
	return nil
}

// mergeInto returns the result of the merge of Kubernetes, which modifies base. That merge panics on values that cannot
// be list keys; mergeInto returns an error instead.
func (p *Patch) mergeInto(base object) (merged object, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("cannot be merged: %v", problem)
		}
	}()
	return strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(base, copyOf(p.tree).(object), p.keys)
}
