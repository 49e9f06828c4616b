package admit

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// NodeStatus matches the updates of node status by which kubelets report: heartbeats.
func NodeStatus() []Match {
	return ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), []admissionv1.Operation{admissionv1.Update}, nodeStatus)
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

// Heartbeat reports whether kubelets write their nodes' status through the route. Such a route never refuses and never
// fails: on any error the write passes unchanged, with a warning.
func (r Route) Heartbeat() bool {
	return slices.ContainsFunc(r.For, func(m Match) bool { return slices.Contains(m.Resources, nodeStatus) })
}

// Unused returns why the route checks and changes nothing, whatever the request: it is switched off, or the policy uses
// it for nothing. It returns "" for all others. Such a route is not registered, unless a registration is older.
func (r Route) Unused() string {
	switch {
	case r.Off:
		return "is switched off by feature gates"
	case len(r.For) == 0:
		return "is used by no section of the policy"
	}
	return ""
}

// ResourceName returns the resource of the request as rules write it, such as pods or pods/exec.
func (r *Request) ResourceName() string {
	if r.SubResource == "" {
		return r.resource().Resource
	}
	return r.resource().Resource + "/" + r.SubResource
}

// resource returns the resource of the request. If a hand-written review leaves it out, it is guessed from the kind.
func (r *Request) resource() metav1.GroupVersionResource {
	if r.Resource.Resource != "" {
		return r.Resource
	}
	guessed, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind(r.Kind))
	return metav1.GroupVersionResource(guessed)
}

// MirrorPod reports whether the request comes from a kubelet and is about a mirror pod of its own node. A mirror pod is
// the API server's image of a static pod, which the kubelet runs whatever admission decides, so changing or refusing it
// would only hide it. The annotation alone is no proof: the API server accepts it from any user who sets spec.nodeName.
func (r *Request) MirrorPod() bool {
	if !r.ByKubelet() {
		return false
	}
	pod := AsPod(r.Object)
	return r.ByKubeletOf(pod.NodeName()) && pod.annotation(corev1.MirrorPodAnnotationKey).Exists()
}

// ByKubelet reports whether a kubelet sent the request, of whichever node: the user name has the prefix that kubelets
// have (Kubernetes documentation, "Using Node Authorization").
func (r *Request) ByKubelet() bool { return strings.HasPrefix(r.UserInfo.Username, kubeletPrefix) }

// The API server authenticates a kubelet as system:node:NAME in the group system:nodes.
const kubeletPrefix, kubeletGroup = "system:node:", "system:nodes"

// ByKubeletOf reports whether the kubelet of the given node sent the request. It also checks the group, as the Node
// authorizer does.
func (r *Request) ByKubeletOf(node string) bool {
	name, ok := strings.CutPrefix(r.UserInfo.Username, kubeletPrefix)
	return ok && node != "" && name == node && slices.Contains(r.UserInfo.Groups, kubeletGroup)
}
