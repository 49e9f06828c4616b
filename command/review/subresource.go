package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/nearest"
)

// subresources are those whose requests carry an object of another kind than the resource, such as pods/binding.
var subresources = map[string]metav1.GroupVersionKind{
	"pods/binding":          {Version: "v1", Kind: "Binding"},
	"pods/eviction":         {Group: "policy", Version: "v1", Kind: "Eviction"},
	"pods/exec":             {Version: "v1", Kind: "PodExecOptions"},
	"pods/attach":           {Version: "v1", Kind: "PodAttachOptions"},
	"pods/portforward":      {Version: "v1", Kind: "PodPortForwardOptions"},
	"pods/proxy":            {Version: "v1", Kind: "PodProxyOptions"},
	"nodes/proxy":           {Version: "v1", Kind: "NodeProxyOptions"},
	"services/proxy":        {Version: "v1", Kind: "ServiceProxyOptions"},
	"serviceaccounts/token": {Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"},
}

// alike are the subresources whose requests carry an object of the kind of the resource, or of kind Scale.
var alike = []string{"approval", "ephemeralcontainers", "finalize", "log", "resize", "scale", "status"}

// CheckSubresource returns an error for a subresource that no kind of Kubernetes and no route has, with the most similar one. A kind of
// others may have any.
func CheckSubresource(sub string, kind schema.GroupKind, routes []admit.Route) error {
	known := subresourcesWith(routes)
	similar := nearest.Question(sub, known)
	others := strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io")
	if sub == "" || slices.Contains(known, sub) || others && similar == "" {
		return nil
	}
	return fmt.Errorf("subresource %s: no kind and no route has it%s", sub, cmp.Or(similar, "; there are "+strings.Join(known, ", ")))
}

// subresourcesWith returns the subresources of Kubernetes and of routes, sorted.
func subresourcesWith(routes []admit.Route) []string {
	known, resources := slices.Clone(alike), slices.Collect(maps.Keys(subresources))
	for _, r := range routes {
		for _, m := range r.For {
			resources = append(resources, m.Resources...)
		}
	}
	for _, resource := range resources {
		if _, of, found := strings.Cut(resource, "/"); found && of != "*" {
			known = append(known, of)
		}
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// ofSubresource returns the kind, resource and object of a request for a subresource. The manifest may be of the
// resource, such as a pod, or of the subresource, such as a Binding.
func ofSubresource(kind metav1.GroupVersionKind, resource metav1.GroupVersionResource, sub string,
	object *unstructured.Unstructured, raw []byte) (metav1.GroupVersionKind, metav1.GroupVersionResource, []byte) {
	is, found := subresources[resource.Resource+"/"+sub]
	switch {
	case resource.Group == "" && found:
	case sub == "scale" && kind.Kind != "Scale":
		is = metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	default:
		return kind, parentOf(kind, resource, sub), raw
	}
	made := map[string]any{"apiVersion": metav1.GroupVersion{Group: is.Group, Version: is.Version}.String(), "kind": is.Kind}
	if !strings.HasSuffix(is.Kind, "Options") { // the options of a connection have no metadata
		made["metadata"] = map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()}
	}
	text, err := json.Marshal(made)
	if err != nil {
		return kind, resource, raw
	}
	return is, resource, text
}

// parentOf returns the resource of a subresource whose own kind the manifest has.
func parentOf(kind metav1.GroupVersionKind, resource metav1.GroupVersionResource, sub string) metav1.GroupVersionResource {
	for _, name := range []string{"pods", "serviceaccounts"} {
		if is, found := subresources[name+"/"+sub]; found && is == kind {
			return metav1.GroupVersionResource{Version: "v1", Resource: name}
		}
	}
	return resource
}
