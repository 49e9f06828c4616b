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

// Match says which requests a route is for, as the rule of a webhook does: Resources, such as pods or pods/resize, whose objects are of Kind.
type Match struct {
	Kind       metav1.GroupVersionKind
	Resources  []string
	Operations []admissionv1.Operation
	Scope      registration.ScopeType
}

// nodeStatus is the resource of heartbeats.
const nodeStatus = "nodes/status"

// Namespaced matches operations on resources of namespaces, whose objects are of a kind.
func Namespaced(kind schema.GroupVersionKind, operations []admissionv1.Operation, resources ...string) Match {
	return Match{metav1.GroupVersionKind(kind), resources, operations, registration.NamespacedScope}
}

// ClusterScoped matches operations on resources of the cluster, whose objects are of a kind.
func ClusterScoped(kind schema.GroupVersionKind, operations []admissionv1.Operation, resources ...string) Match {
	return Match{metav1.GroupVersionKind(kind), resources, operations, registration.ClusterScope}
}

// Pods matches operations on pods.
func Pods(operations ...admissionv1.Operation) Match {
	return Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), operations, "pods")
}

// NodeStatus matches what kubelets write of their nodes: heartbeats.
func NodeStatus() Match {
	return ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), []admissionv1.Operation{admissionv1.Update}, nodeStatus)
}

// MirrorPods exempts what a kubelet stores of its static pods: it runs those whatever admission says. It returns why, or "".
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

// resourceOf is how a rule names what a request is about. A hand-written review may leave the resource out.
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

// misrouted tells that a request is about another kind of object. A sub-resource of the same resource (pods/binding has kind
// Binding) is not: a wide rule may bring it here.
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
