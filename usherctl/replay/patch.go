package replay

import (
	"encoding/json"
	"reflect"

	applier "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"usher.dev/usher/usherctl/explain"
)

// patched returns the object that a client's patch made, before webhooks. An event has neither that object, nor the one before, nor the type of the
// patch: they are known if the remembered object becomes the stored one by a patch of some type, and by those of webhooks. An object that server-side
// apply creates is the patch itself.
func (r *recording) patched(patch, stored object, calls []explain.Called) (sent object, why string) {
	before, after := headOf(r.old), headOf(r.event.ResponseObject)
	kind := after.GroupVersionKind()
	switch {
	case r.refused.Path != "" || after.UID == "":
		return nil, "PATCH: the answer in the log does not have the object"
	case r.req.SubResource != "":
		return nil, "PATCH of a subresource"
	case r.req.Operation == admissionv1.Create:
		return decoded(defaulted(kind, encoded(patch))), ""
	case before.UID != after.UID || before.TypeMeta != after.TypeMeta || after.Generation > before.Generation+1:
		return nil, "PATCH: the log does not have the object as it was before"
	}
	for _, made := range candidates(kind, r.old, r.event.RequestObject) {
		sent = decoded(defaulted(kind, made))
		documents, why := rebuild(kind, false, sent, stored, calls)
		if why == "" && reflect.DeepEqual(unmanaged(documents[0]), unmanaged(runtime.DeepCopyJSON(sent))) {
			return sent, ""
		}
	}
	return nil, "PATCH: the object that the log has as it was before does not become the stored one by it"
}

// candidates returns what patches of each type make of an object.
func candidates(kind schema.GroupVersionKind, old, patch json.RawMessage) (all []json.RawMessage) {
	if operations, err := applier.DecodePatch(patch); err == nil {
		if made, err := operations.Apply(old); err == nil {
			all = append(all, made)
		}
		return all
	}
	if typed, err := legacyscheme.Scheme.New(kind); err == nil {
		if made, err := strategicpatch.StrategicMergePatch(old, patch, typed); err == nil {
			all = append(all, made)
		}
	}
	if made, err := applier.MergePatch(old, patch); err == nil {
		all = append(all, made)
	}
	return all
}

// unmanaged returns an object without its managed fields, which the API server writes last.
func unmanaged(is object) object {
	if metadata, ok := is["metadata"].(object); ok {
		delete(metadata, "managedFields")
	}
	return is
}
