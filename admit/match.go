package admit

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Match says which requests a route is for, like a rule of a webhook. Their objects are of Kind, and the rule has neither
// groups nor versions; with a zero Kind they are of any kind, and the rule says which.
type Match struct {
	Kind metav1.GroupVersionKind
	Rule
}

// nodeStatus is the resource that kubelets write as heartbeats.
const nodeStatus = "nodes/status"

// Namespaced matches operations on namespaced resources whose objects are of the given kind.
func Namespaced(kind schema.GroupVersionKind, operations []admissionv1.Operation, resources ...string) []Match {
	return []Match{{metav1.GroupVersionKind(kind), Rule{Resources: resources, Operations: operations, Scope: registration.NamespacedScope}}}
}

// ClusterScoped matches operations on cluster-scoped resources whose objects are of the given kind.
func ClusterScoped(kind schema.GroupVersionKind, operations []admissionv1.Operation, resources ...string) []Match {
	return []Match{{metav1.GroupVersionKind(kind), Rule{Resources: resources, Operations: operations, Scope: registration.ClusterScope}}}
}

// Pods matches operations on pods.
func Pods(operations ...admissionv1.Operation) []Match {
	return Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), operations, "pods")
}

// EphemeralContainers matches updates of the ephemeral containers of pods, whose objects are the whole pods.
func EphemeralContainers() []Match {
	return Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), []admissionv1.Operation{admissionv1.Update}, "pods/ephemeralcontainers")
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

// Namespaces matches operations on Namespaces, and on their subresources, which may change labels, too.
func Namespaces(operations ...admissionv1.Operation) []Match {
	return ClusterScoped(corev1.SchemeGroupVersion.WithKind("Namespace"), operations, "namespaces", "namespaces/status", "namespaces/finalize")
}

// AnyKind matches what rules name, whatever its kind.
func AnyKind(rules []Rule) (all []Match) {
	for _, rule := range rules {
		all = append(all, Match{Rule: rule})
	}
	return all
}

// MirrorPods exempts the mirror pods of a kubelet, which runs its static pods whatever admission decides. It returns
// why, or "".
func MirrorPods(req *Request) string {
	if req.MirrorPod() {
		return "mirror pod of the kubelet that asks"
	}
	return ""
}

// Covers reports whether the API server would call the route for a request, apart from selectors and conditions.
func (r Route) Covers(req *Request) bool {
	return covers(r.For, req)
}

func covers(matches []Match, req *Request) bool {
	return slices.ContainsFunc(matches, func(m Match) bool { return m.Covers(req) })
}

// For returns matches of the requests that the steps judge, apart from those that are idle. Steps that judge the same
// resources share a match, which has the operations of all of them.
func (c Chain) For() (all []Match) {
	for _, s := range c.steps {
		if s.Idle {
			continue
		}
		for _, m := range s.For {
			m.Operations = slices.Clone(m.Operations)
			i := slices.IndexFunc(all, m.sameResources)
			if i < 0 {
				all = append(all, m)
				continue
			}
			m.Operations = slices.DeleteFunc(m.Operations, func(o admissionv1.Operation) bool { return slices.Contains(all[i].Operations, o) })
			all[i].Operations = append(all[i].Operations, m.Operations...)
		}
	}
	return all
}

// sameResources reports whether two matches are for the same resources of one kind.
func (m Match) sameResources(other Match) bool {
	return m.Kind != (metav1.GroupVersionKind{}) && m.Kind == other.Kind && slices.Equal(m.Resources, other.Resources)
}

// Covers reports whether a rule of a webhook that is made of m matches a request.
func (m Match) Covers(req *Request) bool {
	if m.Kind == (metav1.GroupVersionKind{}) {
		return m.Rule.Covers(req)
	}
	return req.Kind == m.Kind && slices.Contains(m.Resources, req.ResourceName()) && slices.Contains(m.Operations, req.Operation)
}

// Misrouted returns why a request does not belong to the route, or "": it is about another kind of object. A subresource
// of the same resource is accepted although its kind may differ (pods/binding has kind Binding): a broad rule may send it
// here. A route that the policy uses for nothing accepts all: its registration may be older than the policy.
func (r Route) Misrouted(req *Request) string {
	if len(r.For) == 0 || slices.ContainsFunc(r.For, func(m Match) bool { return m.isFor(req) }) {
		return ""
	}
	var kinds []string
	for _, m := range r.For {
		if text := KindText(m.Kind); !slices.Contains(kinds, text) {
			kinds = append(kinds, text)
		}
	}
	return fmt.Sprintf("%s is for %s, not for %s: see the rules of the webhook configuration (usher webhooks)",
		r.Path, strings.Join(kinds, ", "), KindText(req.Kind))
}

// Untouched returns why a request passes without running the chain, or "".
func (r Route) Untouched(req *Request) string {
	switch {
	case r.Unused() != "":
		return r.Path + " " + r.Unused()
	case !r.Covers(req):
		return fmt.Sprintf("%s is not for %s of %s", r.Path, req.Operation, strings.TrimSuffix(req.Kind.Kind+"/"+req.SubResource, "/"))
	case r.Exempt != nil && req.Object != nil:
		return r.Exempt(req)
	}
	return ""
}

// isFor reports whether a request is about an object of the kind of the match, or about a subresource of such objects.
func (m Match) isFor(req *Request) bool {
	return m.Kind == (metav1.GroupVersionKind{}) || req.Kind == m.Kind ||
		req.SubResource != "" && slices.ContainsFunc(m.Resources, func(name string) bool {
			base, _, _ := strings.Cut(name, "/")
			return base == req.Resource.Resource
		})
}

// KindText returns a kind as messages name it, such as apps/v1 Deployment.
func KindText(k metav1.GroupVersionKind) string {
	return metav1.GroupVersion{Group: k.Group, Version: k.Version}.String() + " " + k.Kind
}
