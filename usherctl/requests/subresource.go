package requests

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
	"usher.dev/usher/internal/resources"
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

// sameKind are the subresources whose requests carry an object of the kind of the resource, or of kind Scale.
var sameKind = []string{"approval", "ephemeralcontainers", "finalize", "log", "resize", "scale", "status"}

// CheckSubresource returns an error for a subresource that no kind of Kubernetes and no route has, with the most similar one. A kind of
// another API may have any, such as state or stats; for these, only an obvious slip of status or scale is an error: too few letters may be
// another word.
func CheckSubresource(sub string, kind schema.GroupKind, routes []admit.Route) error {
	known := subresourcesWith(routes)
	if sub == "" || slices.Contains(known, sub) {
		return nil
	}
	if ofOthers(kind.Group) {
		known = slices.DeleteFunc([]string{"scale", "status"}, func(of string) bool { return len(sub) < len(of) || !nearest.Slip(sub, of) })
		if len(known) == 0 {
			return nil
		}
	}
	there := cmp.Or(nearest.Question(sub, known), "; there are "+strings.Join(known, ", "))
	return fmt.Errorf("subresource %s: no kind and no route has it%s", sub, there)
}

// ofOthers reports whether a group is none of Kubernetes itself: some of others end with .k8s.io, too.
func ofOthers(group string) bool {
	return strings.Contains(group, ".") && !slices.ContainsFunc(resources.Kinds(), func(k resources.Kind) bool { return k.Group == group })
}

// subresourcesWith returns the subresources of Kubernetes and of routes, sorted.
func subresourcesWith(routes []admit.Route) []string {
	known, all := slices.Clone(sameKind), slices.Collect(maps.Keys(subresources))
	for _, r := range routes {
		for _, m := range r.For {
			all = append(all, m.Resources...)
		}
	}
	for _, resource := range all {
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
