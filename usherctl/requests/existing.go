package requests

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// AsCreated returns an object that a cluster has, which has a uid, without what API servers, controllers and kubelets have filled in: a
// client could have created it like this. Where a pod runs stays. existing is false for other documents, which stay as they are.
func (d Document) AsCreated() (_ Document, existing bool) {
	object := &unstructured.Unstructured{}
	if d.Err != nil || json.Unmarshal(d.JSON, &object.Object) != nil || object.GetUID() == "" {
		return d, false
	}
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
		"managedFields", "selfLink"} {
		unstructured.RemoveNestedField(object.Object, "metadata", name)
	}
	delete(object.Object, "status")
	if object.GetKind() == "Pod" {
		unstructured.RemoveNestedField(object.Object, "spec", "ephemeralContainers") // a subresource adds them
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		return d, false
	}
	d.JSON = text
	return d, true
}
