package admit

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rule names requests as a rule of a webhook does: operations on resources of some API groups and versions. "*" stands
// for all groups, versions, or resources without their subresources; pods/* for pods and their subresources.
type Rule struct {
	Groups, Versions, Resources []string
	Operations                  []admissionv1.Operation
	Scope                       registration.ScopeType // "": all scopes

	// Names are the names of the objects, as TargetName returns them; none: all. Except are rules for requests that this rule is not for. A rule of a
	// webhook has neither of them.
	Names  []string
	Except []Rule
}

// Covers reports whether the rule is for a request.
func (r Rule) Covers(req *Request) bool {
	return r.Misses(req.resource(), req.SubResource, req.Operation, req.Namespace != "" && !req.AboutNamespace()) == Covered &&
		(len(r.Names) == 0 || slices.Contains(r.Names, req.TargetName())) &&
		!RulesCover(r.Except, req)
}

// RulesCover reports whether one of some rules is for a request.
func RulesCover(rules []Rule, req *Request) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Covers(req) })
}

// Mismatch is the first field of a rule that a request does not meet.
type Mismatch int

// The fields of a rule, in the order of their comparison: the higher, the closer the rule is.
const (
	OtherResource Mismatch = iota
	OtherGroup
	OtherSubresource
	OtherVersion
	OtherOperation
	OtherScope
	Covered // the request meets all fields
)

// Misses compares the rule, apart from Names and Except, with an operation on a resource. A Namespace is cluster-scoped, as in the API server.
func (r Rule) Misses(of metav1.GroupVersionResource, sub string, operation admissionv1.Operation, namespaced bool) Mismatch {
	same, whole := false, false
	for _, resource := range r.Resources {
		base, ruleSub, _ := strings.Cut(resource, "/")
		is := base == "*" || base == of.Resource
		same, whole = same || is, whole || is && (ruleSub == "*" || ruleSub == sub)
	}
	switch {
	case !same:
		return OtherResource
	case !hasOrAll(r.Groups, of.Group):
		return OtherGroup
	case !whole:
		return OtherSubresource
	case !hasOrAll(r.Versions, of.Version):
		return OtherVersion
	case !hasOrAll(r.Operations, operation):
		return OtherOperation
	case r.Scope == registration.ClusterScope && namespaced, r.Scope == registration.NamespacedScope && !namespaced:
		return OtherScope
	}
	return Covered
}

// Overlaps reports whether there may be requests that both rules cover, apart from versions, scopes, names and exceptions.
func (r Rule) Overlaps(other Rule) bool {
	return slices.ContainsFunc(r.Operations, func(o admissionv1.Operation) bool { return slices.Contains(other.Operations, o) }) &&
		slices.ContainsFunc(r.Groups, func(group string) bool { return group == "*" || hasOrAll(other.Groups, group) }) &&
		slices.ContainsFunc(r.Resources, func(a string) bool {
			return slices.ContainsFunc(other.Resources, func(b string) bool { return resourcesOverlap(a, b) })
		})
}

// resourcesOverlap reports whether two entries of rules' resources may match the same resource.
func resourcesOverlap(a, b string) bool {
	same := func(x, y string) bool { return x == y || x == "*" || y == "*" }
	base, sub, _ := strings.Cut(a, "/")
	otherBase, otherSub, _ := strings.Cut(b, "/")
	return same(base, otherBase) && same(sub, otherSub)
}

// hasOrAll reports whether a list of a rule has a value, or "*".
func hasOrAll[T ~string](list []T, value T) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// AboutNamespace reports whether the request is about a Namespace, or one of its subresources.
func (r *Request) AboutNamespace() bool {
	of := r.resource()
	return of.Resource == "namespaces" && of.Group == ""
}

// Ratchet says which objects of a request a rule selects: the one under review, and the stored one. An object that is
// absent is not selected. What a rule finds wrong in a stored object may stay; an update may only not add to it.
type Ratchet struct{ Is, Was bool }

// MayStay reports whether a violation may stay. unchanged says that the update leaves what the rule judges as it is. What the
// rule did not select before is no violation that may stay.
func (r Ratchet) MayStay(unchanged bool) bool { return r.Was && unchanged }

// Either reports whether the rule selects one of the objects, so that no update of labels ends it.
func (r Ratchet) Either() bool { return r.Is || r.Was }

// Both reports whether the rule selects both objects, so that no update of labels begins it.
func (r Ratchet) Both() bool { return r.Is && r.Was }

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

// EphemeralContainers matches updates of the ephemeral containers of pods, whose objects are the whole pods.
func EphemeralContainers() []Match {
	return Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), []admissionv1.Operation{admissionv1.Update}, "pods/ephemeralcontainers")
}
