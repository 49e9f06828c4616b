// Package engine judges requests with the API server's own code: its registries, its handlers and its admission chain run in this
// process, over objects that are given instead of an etcd. No request changes these objects.
//
//	engine.go      the cluster, a request, its verdict
//	judge.go       a request as HTTP, and the response as a verdict
//	state.go       the objects of the cluster
//	quota.go       what the objects use of ResourceQuotas, and what requests use one after the other
//	storage.go     the registries' view of them
//	client.go      a client whose informers have these objects
//	registries.go  the storages of all kinds, and the handlers on top of them
//	eviction.go    evictions of pods
//	custom.go      custom resources
//	chain.go       the admission plug-ins
//	webhooks.go    the calls of webhooks
//	record.go      what each plug-in changed
package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
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
	// Authorizer answers match conditions and policies. Nil: it allows everything.
	Authorizer authorizer.Authorizer
}

// Webhook answers the call of a webhook with an AdmissionReview. ErrNoAnswer: its answer is not known; the request goes on as if it
// had been allowed, and the verdict is not judged. Any other error is a failed call, and the failure policy decides.
type Webhook func(ctx context.Context, called Registered, review []byte) (Answer, error)

// Answer is the HTTP response of a webhook.
type Answer struct {
	Code int // 0: 200
	Body []byte
}

// Registered is a webhook of a configuration.
type Registered struct {
	Configuration string // the name of the object
	Name          string // of the webhook in it
	Path          string // of its Service or URL, such as /mutate-pods
	Mutates       bool
}

// Request is a request to the API server.
type Request struct {
	// Object is the body of the request, JSON or YAML: for a DELETE or a CONNECT its options, such as DeleteOptions, or nothing.
	Object []byte
	// Kind and Name are those of the stored object of a subresource, a DELETE or a CONNECT; for others the object has them.
	Kind        schema.GroupVersionKind
	Name        string
	Namespace   string // for objects of namespaced kinds that have none; empty: default
	SubResource string
	Operation   admissionv1.Operation
	// Old is the stored object of an UPDATE, a DELETE, a CONNECT or a subresource, JSON or YAML; empty: that of the cluster.
	Old []byte
	// New says that there is no stored object of this name, even if the cluster has one: what is created is among its files.
	New bool

	User   string
	Groups []string
	DryRun bool // as webhooks see it; the engine stores nothing in any case
	Strict bool // refuses unknown and duplicate fields, which else are warnings
	Record bool // fills in Verdict.Plugins

	// Count is the number of objects like this one that ResourceQuotas count, such as the pods of a Deployment. Nil stands for one.
	Count *int64
	// Used has the ResourceQuotas as earlier requests left them, and gets the usage of this one. Nil if requests are independent.
	Used Used
}

// Verdict is the API server's answer.
type Verdict struct {
	Code     int             // the HTTP status: 200 or 201 if it is allowed
	Refusal  *metav1.Status  // nil if it is allowed
	By       string          // the admission plug-in that refused, such as LimitRanger; empty: decoding, defaulting or validation did
	Object   json.RawMessage // the answer: the stored object, without managedFields; the Status of a DELETE
	Warnings []string
	Calls    []Call   // of webhooks, in order; validating webhooks are called side by side, and are in the order of their configurations
	Plugins  []Change // of built-in plug-ins and MutatingAdmissionPolicies, in order, with Request.Record
	// Fit is the number of Request.Count objects that fit into the ResourceQuotas of the Namespace. Counted reports whether any quota counts them.
	Fit     int64
	Counted bool
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
	Response []byte          // the AdmissionReview; empty if the call failed or has no answer
	Code     int             // of the HTTP response
	Err      error
	Took     time.Duration
}

// Change is the change of an object by an admission plug-in.
type Change struct {
	Plugin        string // such as LimitRanger
	Round         int
	before, after *snapshot
}

// Engine judges requests to a cluster. Requests may be judged side by side.
type Engine struct {
	registries *registries
	state      *state
	stored     stored
	chain      admission.Interface
	custom     http.Handler
	webhook    Webhook
	authorizer authorizer.Authorizer
	quotas     Used              // of the cluster
	registered []Registered      // in the order of their configurations
	hosts      *strings.Replacer // replaces those by which they are called
	stop       context.CancelFunc
}

// ObjectError is the error of an object of a cluster that an API server could not have stored.
type ObjectError struct {
	Object *unstructured.Unstructured
	Err    error
}

func (e *ObjectError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Object.GetKind(), named(e.Object), e.Err)
}

// Unwrap returns the error without the name of the object.
func (e *ObjectError) Unwrap() error { return e.Err }

// New returns an engine of a cluster, which the caller closes. The error is an ObjectError if it is about an object.
func New(ctx context.Context, c Cluster) (*Engine, error) {
	r, err := loaded()
	if err != nil {
		return nil, err
	}
	s, err := newState(r, c)
	if err != nil {
		return nil, err
	}
	e := &Engine{registries: r, state: s, stored: s.stored, webhook: c.Webhook, custom: http.NotFoundHandler(),
		authorizer: c.Authorizer, quotas: Used{}}
	if e.authorizer == nil {
		e.authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	}
	var hosts []string
	for _, object := range s.typed {
		hosts = append(hosts, e.register(object)...)
		if q, is := object.(*corev1.ResourceQuota); is {
			e.quotas[q.Namespace] = append(e.quotas[q.Namespace], *q)
		}
	}
	e.hosts = strings.NewReplacer(hosts...)
	ctx, e.stop = context.WithCancel(ctx)
	if err := e.start(ctx); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

// start makes the admission chain and the handler of custom resources, which see all objects when it returns.
func (e *Engine) start(ctx context.Context) (err error) {
	c := newClient(e.state.typed, e.registries.served(e.state.kinds))
	params := fake.NewSimpleDynamicClientWithCustomListKinds(legacyscheme.Scheme, listKinds(e.state.kinds), e.state.custom...)
	if len(e.state.definitions) > 0 {
		if e.custom, err = customHandler(ctx, e.state.definitions); err != nil {
			return err
		}
	}
	e.chain, err = newChain(ctx, e.authorizer, c, params, informers.NewSharedInformerFactory(c, 0))
	return err
}

// BuiltIn reports whether a group is one of Kubernetes.
func BuiltIn(group string) bool {
	r, err := loaded()
	if err != nil {
		return false
	}
	for of := range r.groups {
		if of.Group == group {
			return true
		}
	}
	return false
}

// Close ends the watches of an engine.
func (e *Engine) Close() { e.stop() }

// Resource returns the resource of a kind, and reports whether it is namespaced; known is false if neither Kubernetes nor a
// CustomResourceDefinition of the cluster has the kind, so that a file cannot tell how it is judged.
func (e *Engine) Resource(gvk schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced, known bool) {
	k, known := e.kindOf(gvk)
	return k.resource, k.namespaced, known
}

// kindOf returns a kind of Kubernetes, or one that a CustomResourceDefinition of the cluster defines.
func (e *Engine) kindOf(gvk schema.GroupVersionKind) (kind, bool) {
	if k, known := e.registries.kinds[gvk]; known {
		return k, true
	}
	k, known := e.state.kinds[gvk]
	return k, known
}
