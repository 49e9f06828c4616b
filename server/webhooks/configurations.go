// Package webhooks makes the webhook configurations for the API server, compares them with those that are registered,
// and registers and removes them.
package webhooks

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
)

// Name is the name of both webhook configurations.
const Name = "usher"

// Mutating returns the configuration of the routes that change objects.
func Mutating(routes []admit.Route, at Address) configuration { return needed(routes, at)[0] }

// Validating returns the configuration of the routes that check objects.
func Validating(routes []admit.Route, at Address) configuration { return needed(routes, at)[1] }

// needed returns the configurations that make the API server call the routes: the mutating and the validating one.
func needed(routes []admit.Route, at Address) []configuration {
	mutating := configuration{TypeMeta: configurationType("Mutating"), ObjectMeta: at.meta()}
	validating := configuration{TypeMeta: configurationType("Validating"), ObjectMeta: at.meta()}
	for _, e := range Entries(routes) {
		w := e.hook(at)
		if !e.Chain.Mutates() {
			validating.Webhooks = append(validating.Webhooks, w)
			continue
		}
		w.ReinvocationPolicy = &e.Reinvocation
		mutating.Webhooks = append(mutating.Webhooks, w)
	}
	return []configuration{mutating, validating}
}

// hook returns the fields that entries of both kinds have.
func (e Entry) hook(at Address) Hook {
	return Hook{
		Name: e.Name, ClientConfig: at.client(e.Path), Rules: rules(e), FailurePolicy: &e.FailurePolicy,
		MatchPolicy: new(registration.Equivalent), NamespaceSelector: e.Namespaces(at), ObjectSelector: e.Objects(),
		SideEffects: new(e.SideEffects()), TimeoutSeconds: &e.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"},
		MatchConditions: conditions(e, at),
	}
}

func configurationType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: registration.SchemeGroupVersion.String(), Kind: kind + "WebhookConfiguration"}
}

// Meta returns the name and the label of what is registered for usher.
func Meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: Name, Labels: map[string]string{"app.kubernetes.io/name": "usher"}}
}

// meta returns the metadata of the configurations.
func (a Address) meta() metav1.ObjectMeta {
	m := Meta()
	m.Annotations = a.Annotations
	return m
}

// Entry is one webhook of a configuration: a route, or the part of it that is for one scope. Scopes need webhooks of
// their own, because a namespaceSelector has no effect on cluster-scoped objects.
type Entry struct {
	admit.Route
	Name  string
	Scope registration.ScopeType
}

// Entries returns the webhooks of routes. A route that is for nothing has none; a route for both scopes has two.
func Entries(routes []admit.Route) (all []Entry) {
	for _, r := range routes {
		name := r.Webhook()
		for _, scope := range []registration.ScopeType{registration.NamespacedScope, registration.ClusterScope} {
			part := r
			if part.For = inScope(r.For, scope); len(part.For) > 0 {
				all = append(all, Entry{part, name, scope})
				name = "cluster." + name // of the second one
			}
		}
	}
	return all
}

// PathOf returns the path of the route that has a webhook of a name.
func PathOf(name string) string {
	return "/" + strings.TrimSuffix(strings.TrimPrefix(name, "cluster."), ".usher.dev")
}

// inScope returns the part of matches that is for one scope.
func inScope(all []admit.Match, scope registration.ScopeType) (some []admit.Match) {
	for _, m := range all {
		if m.Scope == scope || m.Scope == registration.AllScopes || m.Scope == "" {
			m.Scope = scope
			some = append(some, m)
		}
	}
	return some
}

// byPolicy reports whether the policy names what an entry is for, and not the suite.
func (e Entry) byPolicy() bool { return e.For[0].Kind == (metav1.GroupVersionKind{}) }

// rules are the rules of an entry. What differs only in its resources, and has no wildcard, is one rule.
func rules(e Entry) (all []registration.RuleWithOperations) {
	for _, m := range e.For {
		next := rule(m)
		if last := len(all) - 1; last >= 0 && sameButResources(all[last], next) {
			for _, name := range next.Resources { // matches may differ in names and exceptions alone
				if !slices.Contains(all[last].Resources, name) {
					all[last].Resources = append(all[last].Resources, name)
				}
			}
			continue
		}
		all = append(all, next)
	}
	return all
}

func rule(m admit.Match) registration.RuleWithOperations {
	r := registration.Rule{APIGroups: m.Groups, APIVersions: m.Versions, Resources: slices.Clone(m.Resources), Scope: &m.Scope}
	if m.Kind != (metav1.GroupVersionKind{}) {
		r.APIGroups, r.APIVersions = []string{m.Kind.Group}, []string{m.Kind.Version}
	}
	var operations []registration.OperationType
	for _, o := range m.Operations {
		operations = append(operations, registration.OperationType(o))
	}
	return registration.RuleWithOperations{Operations: operations, Rule: r}
}

func sameButResources(a, b registration.RuleWithOperations) bool {
	wild := func(name string) bool { return strings.Contains(name, "*") }
	if slices.ContainsFunc(slices.Concat(a.Resources, b.Resources), wild) && !slices.Equal(a.Resources, b.Resources) {
		return false // an API server refuses a rule with a wildcard and a resource that it has
	}
	a.Resources, b.Resources = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// conditions returns the route's match conditions, and conditions that exclude what the policy excludes, usher's own
// requests, updates of fields that no step reads, exemptions of namespaces by administrators, excluded pods, and the routine
// writes of kubelets.
func conditions(r Entry, at Address) []registration.MatchCondition {
	all := append(slices.Clip(r.Conditions), excluded(r)...)
	if r.NotForUsher {
		all = append(all, registration.MatchCondition{
			Name: "not-usher", Expression: fmt.Sprintf("request.userInfo.username != %q", at.User)})
	}
	if len(r.Reads) > 0 && r.Updates() {
		all = append(all, registration.MatchCondition{Name: "changed", Expression: changed(r.Reads)})
	}
	if !at.OnDisk && r.aboutUpdatesOfNamespaces() {
		all = append(all, registration.MatchCondition{Name: "not-exempting", Expression: notExempting})
	}
	if len(at.ExcludedPods) > 0 && r.aboutWrittenPods() {
		all = append(all, notExcludedPods(at.ExcludedPods))
	} else if len(at.ExcludedPods) > 0 && r.aboutTemplates() {
		all = append(all, notExcludedTemplates(at.ExcludedPods))
	}
	if at.SkipKubelets && (r.aboutNewPods() || r.ofEveryKind()) {
		all = append(all, registration.MatchCondition{Name: kubeletCondition, Expression: notKubelet})
	}
	return all
}

// ownConditions are the names of the conditions that follow from the policy, and kubeletCondition is that of SkipKubelets.
var ownConditions = []string{"not-excluded", "not-usher", "changed", "not-exempting"}

const kubeletCondition = "not-kubelet"

// notKubelet is a CEL expression that excludes the routine requests of kubelets: their leases, their status, and the
// mirror pods of their static pods, which run whatever admission decides. It cannot fail, which would refuse the
// request.
const notKubelet = `!(has(request.userInfo.groups) && "system:nodes" in request.userInfo.groups &&
(request.resource.resource == "leases" || has(request.subResource) && request.subResource == "status" ||
request.resource.resource == "pods" && request.operation == "CREATE" &&
has(object.metadata.annotations) && "kubernetes.io/config.mirror" in object.metadata.annotations))`

// aboutNewPods reports whether an entry is for the creation of pods.
func (e Entry) aboutNewPods() bool {
	return slices.ContainsFunc(e.For, func(m admit.Match) bool {
		return slices.Contains(m.Resources, "pods") && slices.Contains(m.Operations, admissionv1.Create)
	})
}

// ofEveryKind reports whether the policy names resources by a wildcard. What it names by name is never left out.
func (e Entry) ofEveryKind() bool {
	return e.byPolicy() && slices.ContainsFunc(e.For, func(m admit.Match) bool {
		return slices.ContainsFunc(m.Resources, func(name string) bool { return strings.HasPrefix(name, "*") })
	})
}

// Objects returns the objectSelector: it lets cluster-scoped objects opt in, where the route asks for it. What the
// policy names is not asked: its owner could leave the label off.
func (e Entry) Objects() *metav1.LabelSelector {
	if labels := e.OptIn.AsMap(); labels != nil && e.Scope == registration.ClusterScope && !e.byPolicy() {
		return &metav1.LabelSelector{MatchLabels: labels}
	}
	return nil
}
