package command

import (
	"fmt"
	"slices"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/handlers"
)

// configurationName is the name of both webhook configurations.
const configurationName = "usher"

func mutatingConfiguration(routes []handlers.Route, at address) registration.MutatingWebhookConfiguration {
	c := registration.MutatingWebhookConfiguration{TypeMeta: configurationType("Mutating"), ObjectMeta: configurationMeta()}
	for _, r := range entries(routes) {
		if !r.Chain.Mutates() {
			continue
		}
		c.Webhooks = append(c.Webhooks, registration.MutatingWebhook{
			Name: r.name, ClientConfig: at.client(r.Path), Rules: rules(r), FailurePolicy: &r.FailurePolicy,
			MatchPolicy: new(registration.Equivalent), NamespaceSelector: namespaces(r, at), ObjectSelector: objects(r),
			SideEffects: new(r.SideEffects()), TimeoutSeconds: &r.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"},
			MatchConditions:    conditions(r.Route, at),
			ReinvocationPolicy: &r.Reinvocation,
		})
	}
	return c
}

func validatingConfiguration(routes []handlers.Route, at address) registration.ValidatingWebhookConfiguration {
	c := registration.ValidatingWebhookConfiguration{TypeMeta: configurationType("Validating"), ObjectMeta: configurationMeta()}
	for _, r := range entries(routes) {
		if r.Chain.Mutates() {
			continue
		}
		c.Webhooks = append(c.Webhooks, registration.ValidatingWebhook{
			Name: r.name, ClientConfig: at.client(r.Path), Rules: rules(r), FailurePolicy: &r.FailurePolicy,
			MatchPolicy: new(registration.Equivalent), NamespaceSelector: namespaces(r, at), ObjectSelector: objects(r),
			SideEffects: new(r.SideEffects()), TimeoutSeconds: &r.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"},
			MatchConditions: conditions(r.Route, at),
		})
	}
	return c
}

func configurationType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: registration.SchemeGroupVersion.String(), Kind: kind + "WebhookConfiguration"}
}

func configurationMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: configurationName, Labels: map[string]string{"app.kubernetes.io/name": "usher"}}
}

// entry is one webhook of a configuration: a route, or the part of it that is for one scope. Scopes need webhooks of their own, because a
// namespaceSelector has no effect on cluster-scoped objects.
type entry struct {
	handlers.Route
	name  string
	scope registration.ScopeType
}

// entries returns the webhooks of routes. A route that is for nothing has none; one that is for both scopes has two.
func entries(routes []handlers.Route) (all []entry) {
	for _, r := range routes {
		namespaced, cluster := r, r
		namespaced.For, cluster.For = inScope(r.For, registration.NamespacedScope), inScope(r.For, registration.ClusterScope)
		if len(namespaced.For) > 0 {
			all = append(all, entry{namespaced, r.Webhook(), registration.NamespacedScope})
		}
		if len(cluster.For) > 0 {
			name := r.Webhook()
			if len(namespaced.For) > 0 {
				name = "cluster." + name
			}
			all = append(all, entry{cluster, name, registration.ClusterScope})
		}
	}
	return all
}

// inScope returns the part of matches that is for one scope.
func inScope(all []handlers.Match, scope registration.ScopeType) (some []handlers.Match) {
	for _, m := range all {
		if m.Scope == scope || m.Scope == registration.AllScopes || m.Scope == "" {
			m.Scope = scope
			some = append(some, m)
		}
	}
	return some
}

// byPolicy reports whether the policy names what an entry is for, and not the suite.
func (e entry) byPolicy() bool { return e.For[0].Kind == (metav1.GroupVersionKind{}) }

// rules are the rules of an entry. What differs only in its resources is one rule.
func rules(e entry) (all []registration.RuleWithOperations) {
	for _, m := range e.For {
		next := rule(m)
		if last := len(all) - 1; last >= 0 && sameButResources(all[last], next) {
			all[last].Resources = append(all[last].Resources, next.Resources...)
			continue
		}
		all = append(all, next)
	}
	return all
}

func rule(m handlers.Match) registration.RuleWithOperations {
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
	a.Resources, b.Resources = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// conditions are the route's, one that leaves usher's own requests out, and one that leaves out updates of what no step reads.
func conditions(r handlers.Route, at address) []registration.MatchCondition {
	all := slices.Clip(r.Conditions)
	if r.NotForUsher {
		all = append(all, registration.MatchCondition{
			Name: "not-usher", Expression: fmt.Sprintf("request.userInfo.username != %q", at.user)})
	}
	if len(r.Reads) > 0 && r.Updates() {
		all = append(all, registration.MatchCondition{Name: "changed", Expression: changed(r.Reads)})
	}
	return all
}

// objects lets cluster-scoped objects opt in, where the route asks for it. What the policy names is not asked: its owner could leave the
// label off.
func objects(e entry) *metav1.LabelSelector {
	if labels := e.OptIn.AsMap(); labels != nil && e.scope == registration.ClusterScope && !e.byPolicy() {
		return &metav1.LabelSelector{MatchLabels: labels}
	}
	return nil
}
