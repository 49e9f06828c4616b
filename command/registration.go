package command

import (
	"fmt"
	"slices"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/handlers"
)

// configurationName is the name of both webhook configurations.
const configurationName = "usher"

func mutatingConfiguration(routes []handlers.Route, at address) registration.MutatingWebhookConfiguration {
	c := registration.MutatingWebhookConfiguration{TypeMeta: configurationType("Mutating"), ObjectMeta: configurationMeta()}
	for _, r := range routes {
		if !r.Chain.Mutates() {
			continue
		}
		c.Webhooks = append(c.Webhooks, registration.MutatingWebhook{
			Name: r.Webhook(), ClientConfig: at.client(r.Path), Rules: rules(r), FailurePolicy: &r.FailurePolicy,
			MatchPolicy: new(registration.Equivalent), NamespaceSelector: namespaces(r, at), ObjectSelector: objects(r),
			SideEffects: new(r.SideEffects()), TimeoutSeconds: &r.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"},
			MatchConditions:    conditions(r, at),
			ReinvocationPolicy: &r.Reinvocation,
		})
	}
	return c
}

func validatingConfiguration(routes []handlers.Route, at address) registration.ValidatingWebhookConfiguration {
	c := registration.ValidatingWebhookConfiguration{TypeMeta: configurationType("Validating"), ObjectMeta: configurationMeta()}
	for _, r := range routes {
		if r.Chain.Mutates() {
			continue
		}
		c.Webhooks = append(c.Webhooks, registration.ValidatingWebhook{
			Name: r.Webhook(), ClientConfig: at.client(r.Path), Rules: rules(r), FailurePolicy: &r.FailurePolicy,
			MatchPolicy: new(registration.Equivalent), NamespaceSelector: namespaces(r, at), ObjectSelector: objects(r),
			SideEffects: new(r.SideEffects()), TimeoutSeconds: &r.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"},
			MatchConditions: conditions(r, at),
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

func rules(r handlers.Route) []registration.RuleWithOperations {
	rule := registration.Rule{APIGroups: []string{r.For.Kind.Group}, APIVersions: []string{r.For.Kind.Version}, Resources: r.For.Resources, Scope: &r.For.Scope}
	var operations []registration.OperationType
	for _, o := range r.For.Operations {
		operations = append(operations, registration.OperationType(o))
	}
	return []registration.RuleWithOperations{{Operations: operations, Rule: rule}}
}

// conditions are the route's, one that leaves usher's own requests out, and one that leaves out updates of what no step reads.
func conditions(r handlers.Route, at address) []registration.MatchCondition {
	all := slices.Clip(r.Conditions)
	if r.NotForUsher {
		all = append(all, registration.MatchCondition{
			Name: "not-usher", Expression: fmt.Sprintf("request.userInfo.username != %q", at.user)})
	}
	if len(r.Reads) > 0 {
		all = append(all, registration.MatchCondition{Name: "changed", Expression: changed(r.Reads)})
	}
	return all
}

// objects lets cluster-scoped objects opt in, where the route asks for it.
func objects(r handlers.Route) *metav1.LabelSelector {
	if labels := r.OptIn.AsMap(); labels != nil && r.For.Scope == registration.ClusterScope {
		return &metav1.LabelSelector{MatchLabels: labels}
	}
	return nil
}
