package requests

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Existing returns documents in which objects that a cluster has, those with a uid, are as they were created, unless they are updates, and
// pods have their owners.
func Existing(documents []Document) []Document {
	owners, all := NewOwners(documents), slices.Clone(documents)
	for i, d := range documents {
		if len(d.Old) > 0 || !bytes.Contains(d.JSON, []byte(`"uid"`)) { // an update is no creation
			continue
		}
		if created, existing := d.AsCreated(); existing {
			created.Existing, created.Owner = true, owners.Of(d)
			all[i] = created
		}
	}
	return all
}

// Presupposed returns what a cluster must have because it has the pods among documents: ServiceAccounts, PriorityClasses, RuntimeClasses.
func Presupposed(documents []Document) []*unstructured.Unstructured {
	all := map[string]*unstructured.Unstructured{}
	add := func(version, kind, namespace, name string, fields map[string]any) {
		object := &unstructured.Unstructured{Object: fields}
		object.SetAPIVersion(version)
		object.SetKind(kind)
		object.SetName(name)
		object.SetNamespace(namespace)
		all[kind+"/"+namespace+"/"+name] = object
	}
	for _, d := range documents {
		var pod corev1.Pod
		if !d.Existing || json.Unmarshal(d.JSON, &pod) != nil || pod.Kind != "Pod" {
			continue
		}
		if name := pod.Spec.ServiceAccountName; name != "" {
			add("v1", "ServiceAccount", pod.Namespace, name, map[string]any{})
		}
		if name := pod.Spec.PriorityClassName; name != "" && pod.Spec.Priority != nil && !strings.HasPrefix(name, "system-") {
			class := map[string]any{"value": int64(*pod.Spec.Priority)}
			if pod.Spec.PreemptionPolicy != nil {
				class["preemptionPolicy"] = string(*pod.Spec.PreemptionPolicy)
			}
			add("scheduling.k8s.io/v1", "PriorityClass", "", name, class)
		}
		if name := pod.Spec.RuntimeClassName; name != nil {
			class := map[string]any{"handler": "handler"}
			if pod.Spec.Overhead != nil {
				overhead := map[string]any{}
				for name, amount := range pod.Spec.Overhead {
					overhead[string(name)] = amount.String()
				}
				class["overhead"] = map[string]any{"podFixed": overhead}
			}
			add("node.k8s.io/v1", "RuntimeClass", "", *name, class)
		}
	}
	return slices.Collect(maps.Values(all))
}

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
	if object.GetKind() != "ResourceQuota" { // which counts what there is
		delete(object.Object, "status")
	}
	switch object.GetKind() {
	case "Pod":
		unstructured.RemoveNestedField(object.Object, "spec", "ephemeralContainers") // a subresource adds them
	case "Service":
		if address, _, _ := unstructured.NestedString(object.Object, "spec", "clusterIP"); address != corev1.ClusterIPNone {
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIPs")
		}
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		return d, false
	}
	d.JSON = text
	return d, true
}
