// Package handlers is the only room that knows HTTP and AdmissionReview: it reads a review, lets a chain decide, and writes
// the answer.
package handlers

import (
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/document"
)

// Route is one path: which requests it is for, how the API server should call it, and what it does. The server, the shipped
// webhook configurations, `usher review` and the docs are made from it.
type Route struct {
	Path  string
	Suite Suite
	Gate  string // the feature gate that switches the route; empty: always on

	// Kind, Resource, SubResource and Operations are the requests that the chain is for. Others pass untouched, except
	// those about another kind of object, which are a mistake of the caller.
	Kind        metav1.GroupVersionKind
	Resource    string
	SubResource string
	Operations  []admissionv1.Operation
	Scope       registration.ScopeType

	// How the API server should call the route.
	Webhook        string // its name, at least three segments
	FailurePolicy  registration.FailurePolicyType
	TimeoutSeconds int32
	SideEffects    registration.SideEffectClass
	Reinvocation   registration.ReinvocationPolicyType // mutating routes only

	// Heartbeat marks node status routes: they never refuse and never fail. Whatever goes wrong, the write passes as it
	// is, with a warning.
	Heartbeat bool
	// Exempt says why an object passes untouched, or "". Nil: no object does.
	Exempt func(*document.Document) string

	Chain admit.Chain
}

// Suite is a group of routes with a scope of their own in the shipped configurations.
type Suite string

const (
	// Tutorial is for namespaces and nodes that carry the label admission-webhook: enabled.
	Tutorial Suite = "tutorial"
	// Colocation is for all namespaces but kube-system and usher's own.
	Colocation Suite = "colocation"
)

// Covers tells whether the API server would call the route for a request.
func (r Route) Covers(req *admit.Request) bool {
	return r.isKind(req) && req.SubResource == r.SubResource && slices.Contains(r.Operations, req.Operation)
}

func (r Route) isKind(req *admit.Request) bool { return req.Kind == r.Kind }

// misrouted tells that a request is about another kind of object. A sub-resource of the same resource (pods/binding has kind
// Binding) is not: a wide rule may bring it here.
func (r Route) misrouted(req *admit.Request) error {
	if r.isKind(req) || req.Resource.Resource == r.Resource && req.SubResource != r.SubResource {
		return nil
	}
	return badReview("%s is for %s, not for %s: see the rules of the webhook configuration (usher webhooks)",
		r.Path, kindText(r.Kind), kindText(req.Kind))
}

func kindText(k metav1.GroupVersionKind) string {
	return metav1.GroupVersion{Group: k.Group, Version: k.Version}.String() + " " + k.Kind
}
