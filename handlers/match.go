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

// Match says which requests a route is for, like a rule of a webhook: operations on Resources, such as pods or
// pods/resize. Their objects are of Kind; with a zero Kind they are of any kind, and the resources are those of Groups
// and Versions. As in a webhook's rule, "*" stands for all groups, versions, or resources without their subresources,
// and pods/* for pods and their subresources.
type Match struct {
	Kind             metav1.GroupVersionKind
	Groups, Versions []string // set only if Kind is zero
	Resources        []string
	Operations       []admissionv1.Operation
	Scope            registration.ScopeType
}

// nodeStatus is the resource that kubelets write as heartbeats.
const nodeStatus = "nodes/status"

// Namespaced matches operations on namespaced resources whose objects are of the given kind.
func Namespaced(kind schema.GroupVersionKind, operations []admissionv1.Operation, resources ...string) []Match {
	return []Match{{Kind: metav1.GroupVersionKind(kind), Resources: resources, Operations: operations, Scope: registration.NamespacedScope}}
}

// ClusterScoped matches operations on cluster-scoped resources whose objects are of the given kind.
func ClusterScoped(kind schema.GroupVersionKind, operations []admissionv1.Operation, resources ...string) []Match {
	return []Match{{Kind: metav1.GroupVersionKind(kind), Resources: resources, Operations: operations, Scope: registration.ClusterScope}}
}

// Pods matches operations on pods.
func Pods(operations ...admissionv1.Operation) []Match {
	return Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), operations, "pods")
}

// NodeStatus matches the updates of node status by which kubelets report: heartbeats.
func NodeStatus() []Match {
	return ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), []admissionv1.Operation{admissionv1.Update}, nodeStatus)
}

// Workloads matches operations on the workloads whose pods are made from a template: Deployments, StatefulSets,
// DaemonSets, Jobs and CronJobs.
func Workloads(operations ...admissionv1.Operation) (all []Match) {
	for _, w := range []struct{ group, kind, resource string }{
		{"apps", "Deployment", "deployments"}, {"apps", "StatefulSet", "statefulsets"}, {"apps", "DaemonSet", "daemonsets"},
		{"batch", "Job", "jobs"}, {"batch", "CronJob", "cronjobs"},
	} {
		kind := schema.GroupVersionKind{Group: w.group, Version: "v1", Kind: w.kind}
		all = append(all, Namespaced(kind, operations, w.resource)...)
	}
	return all
}

// MirrorPods exempts the mirror pods of a kubelet, which runs its static pods whatever admission decides. It returns
// why, or "".
func MirrorPods(req *admit.Request) string {
	if req.MirrorPod() {
		return "mirror pod of the kubelet that asks"
	}
	return ""
}

// Covers reports whether the API server would call the route for a request, apart from selectors and conditions.
func (r Route) Covers(req *admit.Request) bool {
	return slices.ContainsFunc(r.For, func(m Match) bool { return m.Covers(req) })
}

// Covers reports whether a rule of a webhook that is made of m matches a request.
func (m Match) Covers(req *admit.Request) bool {
	if !slices.Contains(m.Operations, req.Operation) {
		return false
	}
	resource := resourceOf(req)
	if m.Kind != (metav1.GroupVersionKind{}) {
		return req.Kind == m.Kind && slices.Contains(m.Resources, resource)
	}
	return hasOrAll(m.Groups, groupOf(req)) && hasOrAll(m.Versions, versionOf(req)) && m.inScope(req) &&
		slices.ContainsFunc(m.Resources, func(rule string) bool { return resourceMatches(rule, resource) })
}

// inScope reports whether a request is in the scope of a match. A Namespace is cluster-scoped, although the API server
// sends its name as the namespace of the request.
func (m Match) inScope(req *admit.Request) bool {
	namespaced := req.Namespace != "" && (resourceOf(req) != "namespaces" || groupOf(req) != "")
	switch m.Scope {
	case registration.ClusterScope:
		return !namespaced
	case registration.NamespacedScope:
		return namespaced
	}
	return true
}

// hasOrAll reports whether a list of a rule has a value, or "*".
func hasOrAll(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// resourceMatches reports whether an entry of a rule's resources matches a resource, such as pods or pods/exec.
func resourceMatches(rule, resource string) bool {
	base, sub, _ := strings.Cut(resource, "/")
	ruleBase, ruleSub, ruleHasSub := strings.Cut(rule, "/")
	if ruleBase != "*" && ruleBase != base {
		return false
	}
	if !ruleHasSub {
		return sub == ""
	}
	return ruleSub == "*" || sub != "" && ruleSub == sub
}

// groupOf and versionOf return the API group and version of the resource of a request. A hand-written review may leave
// the resource out; then they are those of the kind.
func groupOf(req *admit.Request) string {
	if req.Resource.Resource == "" {
		return req.Kind.Group
	}
	return req.Resource.Group
}

func versionOf(req *admit.Request) string {
	if req.Resource.Resource == "" {
		return req.Kind.Version
	}
	return req.Resource.Version
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

// misrouted returns an error if the request is about another kind of object than the route is for. A subresource of the
// same resource is accepted although its kind may differ (pods/binding has kind Binding): a broad rule may send it here.
// A route that the policy uses for nothing accepts all: its registration may be older than the policy.
func (r Route) misrouted(req *admit.Request) error {
	if len(r.For) == 0 || slices.ContainsFunc(r.For, func(m Match) bool { return m.isFor(req) }) {
		return nil
	}
	var kinds []string
	for _, m := range r.For {
		if text := kindText(m.Kind); !slices.Contains(kinds, text) {
			kinds = append(kinds, text)
		}
	}
	return badReview("%s is for %s, not for %s: see the rules of the webhook configuration (usher webhooks)",
		r.Path, strings.Join(kinds, ", "), kindText(req.Kind))
}

// isFor reports whether a request is about an object of the kind of the match, or about a subresource of such objects.
func (m Match) isFor(req *admit.Request) bool {
	return m.Kind == (metav1.GroupVersionKind{}) || req.Kind == m.Kind ||
		req.SubResource != "" && slices.ContainsFunc(m.Resources, func(name string) bool {
			base, _, _ := strings.Cut(name, "/")
			return base == req.Resource.Resource
		})
}

func kindText(k metav1.GroupVersionKind) string {
	return metav1.GroupVersion{Group: k.Group, Version: k.Version}.String() + " " + k.Kind
}
