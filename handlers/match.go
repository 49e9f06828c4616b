package handlers

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
)

// Match says which requests a route is for, like the rule of a webhook: Resources, such as pods or pods/resize, whose
// objects are of Kind.
type Match struct {
	Kind       metav1.GroupVersionKind
	Resources  []string
	Operations []admissionv1.Operation
	Scope      registration.ScopeType
}

// nodeStatus is the resource that kubelets write as heartbeats.
const nodeStatus = "nodes/status"

// Namespaced matches operations on namespaced resources whose objects are of the given kind.
func Namespaced(kind schema.GroupVersionKind, operations []admissionv1.Operation, resources ...string) Match {
	return Match{metav1.GroupVersionKind(kind), resources, operations, registration.NamespacedScope}
}

// ClusterScoped matches operations on cluster-scoped resources whose objects are of the given kind.
func ClusterScoped(kind schema.GroupVersionKind, operations []admissionv1.Operation, resources ...string) Match {
	return Match{metav1.GroupVersionKind(kind), resources, operations, registration.ClusterScope}
}

// Pods matches operations on pods.
func Pods(operations ...admissionv1.Operation) Match {
	return Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), operations, "pods")
}

// NodeStatus matches the updates of node status by which kubelets report: heartbeats.
func NodeStatus() Match {
	return ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), []admissionv1.Operation{admissionv1.Update}, nodeStatus)
}

// MirrorPods exempts the mirror pods of a kubelet, which runs its static pods whatever admission decides. It returns
// why, or "".
func MirrorPods(req *admit.Request) string {
	if req.MirrorPod() {
		return "mirror pod of the kubelet that asks"
	}
	return ""
}

// Covers reports whether the API server would call the route for a request.
func (r Route) Covers(req *admit.Request) bool {
	return req.Kind == r.For.Kind && slices.Contains(r.For.Resources, resourceOf(req)) && slices.Contains(r.For.Operations, req.Operation)
}

// resourceOf returns the resource of a request as rules write it. If a hand-written review leaves it out, it is guessed
// from the kind.
func resourceOf(req *admit.Request) string {
	name := req.Resource.Resource
	if name == "" {
		guessed, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind(req.Kind))
		name = guessed.Resource
	}
	if req.SubResource == "" {
		return name
	}
	return name + "/" + req.SubResource
}

// misrouted returns an error if the request is about another kind of object. A subresource of the same resource is
// accepted although its kind may differ (pods/binding has kind Binding): a broad rule may send it here.
func (r Route) misrouted(req *admit.Request) error {
	if req.Kind == r.For.Kind || req.SubResource != "" && slices.ContainsFunc(r.For.Resources, func(name string) bool {
		base, _, _ := strings.Cut(name, "/")
		return base == req.Resource.Resource
	}) {
		return nil
	}
	return badReview("%s is for %s, not for %s: see the rules of the webhook configuration (usher webhooks)",
		r.Path, kindText(r.For.Kind), kindText(req.Kind))
}

func kindText(k metav1.GroupVersionKind) string {
	return metav1.GroupVersion{Group: k.Group, Version: k.Version}.String() + " " + k.Kind
}
