// Package handlers is the only room that knows HTTP and AdmissionReview: it reads a review, lets a chain decide, and writes
// the answer.
package handlers

import (
	"bytes"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/gate"
)

// Route is one path: which requests it is for, how the API server should call it, and what it does. The server, the shipped
// webhook configurations, `usher review` and the docs are made from it.
type Route struct {
	Path  string
	Suite Suite
	Gate  gate.Name // the feature gate that switches the route; empty: always on

	// Kind, Resources and Operations are the requests that the chain is for: the resources of a webhook's rule, such as pods or
	// pods/resize, whose objects are of that kind. Other requests about these resources pass untouched; those about another
	// kind of object are a mistake of the caller.
	Kind       metav1.GroupVersionKind
	Resources  []string
	Operations []admissionv1.Operation
	Scope      registration.ScopeType

	// How the API server should call the route.
	Webhook        string // its name, at least three segments
	FailurePolicy  registration.FailurePolicyType
	TimeoutSeconds int32
	SideEffects    registration.SideEffectClass
	Reinvocation   registration.ReinvocationPolicyType // mutating routes only
	Conditions     []registration.MatchCondition       // which of these requests it wants, in CEL; none: all
	NotForUsher    bool                                // usher's own requests are not wanted
	// Reads are the fields whose change the steps look at, such as metadata.labels: an update that leaves them as they are is not
	// called for, so that it passes while usher is away. None: every update is called for.
	Reads []string

	// Heartbeat marks node status routes: they never refuse and never fail. Whatever goes wrong, the write passes as it
	// is, with a warning.
	Heartbeat bool
	// Exempt returns why a request passes untouched, or "". Nil: none does. The request has an object.
	Exempt func(*admit.Request) string

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
	return req.Kind == r.Kind && slices.Contains(r.Resources, resourceOf(req)) && slices.Contains(r.Operations, req.Operation)
}

// Changes reports whether a request changes what the steps look at, see Reads. What is no update does.
func (r Route) Changes(req *admit.Request) bool {
	if len(r.Reads) == 0 || req.Operation != admissionv1.Update || req.Object == nil || req.OldObject == nil {
		return true
	}
	return slices.ContainsFunc(r.Reads, func(field string) bool {
		path := strings.Split(field, ".")
		return !bytes.Equal(req.Object.Root().At(path...).Bytes(), req.OldObject.Root().At(path...).Bytes())
	})
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
	if req.Kind == r.Kind || req.SubResource != "" && slices.ContainsFunc(r.Resources, func(name string) bool {
		base, _, _ := strings.Cut(name, "/")
		return base == req.Resource.Resource
	}) {
		return nil
	}
	return badReview("%s is for %s, not for %s: see the rules of the webhook configuration (usher webhooks)",
		r.Path, kindText(r.Kind), kindText(req.Kind))
}

func kindText(k metav1.GroupVersionKind) string {
	return metav1.GroupVersion{Group: k.Group, Version: k.Version}.String() + " " + k.Kind
}
