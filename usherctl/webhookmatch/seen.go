package webhookmatch

import (
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// seenBy returns the request as a webhook sees it: what the API server does to an object before it asks the validating
// webhooks, and what it leaves out of a manifest.
func (r Request) seenBy(h Hook) Request {
	var object map[string]any
	if len(r.Object.Raw) == 0 || json.Unmarshal(r.Object.Raw, &object) != nil || object == nil {
		return r
	}
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		return r
	}
	name, changed := r.Name, r.Unstored && (prune(metadata) || r.isNamespaces())
	if r.Unstored && r.isNamespaces() && r.subresource() == "" {
		labelWithName(metadata)
	}
	if !h.Mutating {
		if generated := r.generateName(metadata); generated != "" {
			name, changed = generated, true
		}
		changed = r.keepLabels(metadata) || changed
	}
	if !changed {
		return r
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return r
	}
	copied := *r.AdmissionRequest
	copied.Name, copied.Object.Raw = name, raw
	r.AdmissionRequest = &copied
	return r
}

// prune removes the empty members of metadata, which the API server does not keep, and reports whether there are any.
func prune(metadata map[string]any) (changed bool) {
	for key, value := range metadata {
		entries, isMap := value.(map[string]any)
		if value == nil || value == "" || isMap && len(entries) == 0 {
			delete(metadata, key)
			changed = true
		}
	}
	return changed
}

// labelWithName sets the label that the API server sets on a Namespace.
func labelWithName(metadata map[string]any) {
	name, _ := metadata["name"].(string)
	if name == "" {
		return
	}
	if _, labelled := metadata["labels"].(map[string]any); !labelled {
		metadata["labels"] = map[string]any{}
	}
	metadata["labels"].(map[string]any)[corev1.LabelMetadataName] = name
}

// generateName sets a name as the API server makes it before validation, with digits in place of random letters.
func (r Request) generateName(metadata map[string]any) string {
	prefix, _ := metadata["generateName"].(string)
	if r.Operation != admissionv1.Create || r.subresource() != "" || prefix == "" || metadata["name"] != nil {
		return ""
	}
	metadata["name"] = prefix + "00000"
	return prefix + "00000"
}

// keepingLabels are the subresources, except of custom resources, by which the labels of an object cannot be
// changed: after the mutating webhooks the API server takes the stored ones.
var keepingLabels = []string{"pods/ephemeralcontainers", "pods/resize", "deployments.apps/status"}

// keepLabels replaces labels by the stored ones if a request cannot change them, and reports whether it does.
func (r Request) keepLabels(metadata map[string]any) bool {
	if r.Operation != admissionv1.Update || r.subresource() == "" {
		return false
	}
	group := r.resource().Group
	custom := strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") && r.subresource() == "status"
	name := schema.GroupResource{Group: group, Resource: r.resource().Resource}.String() + "/" + r.subresource()
	var old metav1.PartialObjectMetadata
	if !custom && !slices.Contains(keepingLabels, name) || json.Unmarshal(r.OldObject.Raw, &old) != nil {
		return false
	}
	delete(metadata, "labels")
	if len(old.Labels) > 0 {
		metadata["labels"] = old.Labels
	}
	return true
}
