// Package strategic applies strategic merge patches to documents.
//
// The merge itself is that of Kubernetes, which wants whole decoded objects and gives back another one. So that an object stays the
// bytes that were sent, Merge
//
//  1. cuts out of the object what the patch names (extract.go): of most list elements that is only the merge key, and a mark,
//  2. lets Kubernetes merge the patch into that part (merge.go),
//  3. writes the result back as edits (apply.go); by their marks the elements of lists are known again.
//
// A patch is parsed and settled once (patch.go, settle.go): what Kubernetes does by chance, or differently from its documents, is
// made definite then. keys.go knows the directives, and by which key a list is merged; tree.go works on decoded JSON.
//
// Where a list has several patches for one element, none of them alone says what the element becomes: they go through the code as a
// nil patch, which concerns every member.
package strategic

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"usher.dev/usher/document"
)

// Merge applies a strategic merge patch to the object at v. What it comes to is recorded as edits, part by part: only
// what the patch names is looked at, list elements are known by their merge key, and a new one is inserted where the
// patch wants it. An error means that what stands there does not fit together with the patch, for example an element
// without its merge key.
func Merge(v *document.Value, p *Patch) error {
	var trouble error
	have := mergeKeys{p.keys.known, &trouble}.extractObject(v, p.tree)
	if v.Err() != nil || trouble != nil {
		return trouble // the document's own error is found by whoever asks it
	}
	want, err := p.mergeInto(have)
	if err != nil {
		return err
	}
	p.keys.applyObject(v, want, p.tree)
	return nil
}

// mergeInto is the merge of Kubernetes. It changes base. Values that no list may have for a key make it panic, here an error.
func (p *Patch) mergeInto(base object) (merged object, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("cannot be merged: %v", problem)
		}
	}()
	return strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(base, copyOf(p.tree).(object), p.keys)
}
