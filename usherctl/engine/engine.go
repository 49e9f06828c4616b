// Package engine judges requests with the API server's own code: its registries, its handlers and its admission chain run in this
// process, over objects that are given instead of an etcd. No request changes these objects.
//
//	engine.go      the cluster, a request, its verdict
//	state.go       the objects of the cluster
//	client.go      a client whose informers have these objects
//	registries.go  the storages of all kinds, and the handlers on top of them
//	custom.go      custom resources
//	chain.go       the admission plug-ins
//	webhooks.go    the calls of webhooks
//	record.go      what each plug-in changed
package engine

import (
	"context"
	"encoding/json"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cluster is a cluster as files know it.
type Cluster struct {
	// Objects are stored. Among them are Namespaces, CustomResourceDefinitions, webhook configurations, admission policies and their
	// parameters, LimitRanges, ResourceQuotas, PriorityClasses, RuntimeClasses and ServiceAccounts: these decide about requests.
	// Namespaces default, kube-node-lease, kube-public and kube-system, and the ServiceAccount default of each Namespace, are added
	// if they are missing.
	Objects []*unstructured.Unstructured
	// Assumed are Namespaces that are no objects, with their labels.
	Assumed map[string]map[string]string
	// Webhook answers the calls of registered webhooks. Nil: no webhook has an answer.
	Webhook Webhook
}

// Webhook answers the call of a webhook with an AdmissionReview. ErrNoAnswer: its answer is not known; the request goes on as if it
// had been allowed, and the verdict is not judged. Any other error is a failed call, and the failure policy decides.
type Webhook func(ctx context.Context, called Registered, review []byte) ([]byte, error)

// Registered is a webhook of a configuration.
type Registered struct {
	Configuration string // the name of the object
	Name          string // of the webhook in it
	Path          string // of its Service or URL, such as /mutate-pods
	Mutates       bool
}

// Request is a request to the API server.
type Request struct {
	// Object is what is sent, JSON or YAML; empty for DELETE.
	Object []byte
	// Kind and Name are those of the stored object of a subresource, a DELETE or a CONNECT; for others the object has them.
	Kind        schema.GroupVersionKind
	Name        string
	Namespace   string // for objects of namespaced kinds that have none; empty: default
	SubResource string
	Operation   admissionv1.Operation
	// Old is the stored object of an UPDATE, a DELETE, a CONNECT or a subresource, JSON or YAML; empty: that of the cluster.
	Old []byte

	User   string
	Groups []string
	DryRun bool // as webhooks see it; the engine stores nothing in any case
	Strict bool // refuses unknown and duplicate fields, which else are warnings
	Record bool // fills in Verdict.Plugins
}

// Verdict is the API server's answer.
type Verdict struct {
	Code     int            // the HTTP status: 200 or 201 if it is allowed
	Refusal  *metav1.Status // nil if it is allowed
	Object   json.RawMessage // the answer: the stored object, without managedFields; the Status of a DELETE
	Warnings []string
	Calls    []Call   // of webhooks, in order; calls of validating webhooks are in the order of their configurations
	Plugins  []Change // of built-in plug-ins and MutatingAdmissionPolicies, in order, with Request.Record
	// Unjudged says why the verdict, or the object, may be another one: webhooks without an answer, for instance.
	Unjudged []string
}

// Allowed reports whether the API server accepts the request.
func (v Verdict) Allowed() bool { return v.Refusal == nil }

// Call is one call of a webhook.
type Call struct {
	Registered
	Round    int             // 0, or 1 for a reinvocation
	Review   json.RawMessage // as sent
	Response json.RawMessage // the AdmissionReview; empty if the call failed or has no answer
	Err      error
	Took     time.Duration
}

// Change is the change of an object by an admission plug-in.
type Change struct {
	Plugin        string // such as LimitRanger
	Round         int
	Before, After json.RawMessage // in the version of the request
}
