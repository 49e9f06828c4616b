// Package webhookmatch says whether the API server calls a webhook for a request, and if not, which filter keeps it away.
//
// The API server's own code decides about each filter. It asks them in another order, which changes no verdict: a webhook is called if all of
// them let the request through. Here the rules come first: if they are for something else, no other filter matters.
package webhookmatch

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"

	"usher.dev/usher/internal/selector"
	"usher.dev/usher/usherctl/discovery"
)

// Hook is a webhook with the name of its configuration. Those of both kinds have the fields of a validating one.
type Hook struct {
	Configuration string
	Mutating      bool
	File          string // of the API server that has the configuration; "" if the API has it
	registration.ValidatingWebhook
}

// OnDisk reports whether a configuration of that name is in a file of the API server: the API accepts no such name. Its webhooks are
// called before those of the API, and for webhook configurations, too.
func OnDisk(configuration string) bool { return strings.HasSuffix(configuration, ".static.k8s.io") }

// The filters, as a Verdict names them.
const (
	Exempt            = "exempt" // no webhook is called for such a resource
	Rules             = "rules"
	Scope             = "scope"
	MatchPolicy       = "matchPolicy"
	NamespaceSelector = "namespaceSelector"
	ObjectSelector    = "objectSelector"
	MatchConditions   = "matchConditions"
	SideEffects       = "sideEffects" // for dry runs
	Refused           = "refused"     // another webhook makes the API server refuse the request before
	Unknown           = "unknown"
)

// Verdict is whether the API server calls a webhook for a request.
type Verdict struct {
	Called bool
	// Filter is the filter that keeps the request away, or Unknown if it cannot be told whether any does.
	Filter string
	// Why names the field, its value, and what does not meet it.
	Why string
	// Refuses reports that the API server refuses the request because it cannot call the webhook as it should.
	Refuses bool
	// As is the resource as which an equivalent one is sent; empty if it is sent as it came.
	As schema.GroupVersionResource

	// Converts reports that it is unknown because the API server converts the object before, which is not done here.
	Converts bool

	mayRefuse bool // it is not known whether a match condition makes the API server refuse the request
}

func skip(filter, why string, values ...any) Verdict {
	return Verdict{Filter: filter, Why: fmt.Sprintf(why, values...)}
}

// decided reports whether a filter has decided.
func (v Verdict) decided() bool { return v.Filter != "" }

// Request is a request, and what else the API server knows when it asks the filters.
type Request struct {
	*admissionv1.AdmissionRequest
	// Bare reports that only the object's kind and metadata are known, such as of the options of a connection to the pod of a
	// manifest.
	Bare bool
	// InNamespace is the namespace of the request. It does not matter to objects that are not in one.
	InNamespace Namespace
	// Equivalents are the resources under which the API server serves the same objects, in other versions or groups.
	// EquivalentsErr says why they are not known.
	Equivalents    []Equivalent
	EquivalentsErr error
	// Authorize answers what match conditions ask of the authorizer. Nil: that is not known.
	Authorize Authorize
	// SendsVirtualResources reports that webhooks are called for TokenReviews and the like, as before Kubernetes 1.37.
	SendsVirtualResources bool
}

// Namespace holds the known facts about a namespace.
type Namespace struct {
	Labels map[string]string
	// Err says why the labels are not known.
	Err error
}

// Equivalent is another resource for the same objects.
type Equivalent = discovery.Equivalent

// Matcher decides. It may be used concurrently.
type Matcher struct {
	once       sync.Once
	conditions plugin.ConditionCompiler
	compiled   sync.Map // of conditions, as text: matchconditions.Matcher
}

// Of returns the verdicts for webhooks in the order in which the API server asks them, mutating ones first. A webhook that makes the
// API server refuse it keeps the request from others. Mutating webhooks get the request in another state than validating ones.
func (m *Matcher) Of(ctx context.Context, mutating, validating Request, hooks []Hook) []Verdict {
	verdicts := make([]Verdict, len(hooks))
	for i, h := range hooks {
		if verdicts[i] = m.One(ctx, validating, h); h.Mutating {
			verdicts[i] = m.One(ctx, mutating, h)
		}
	}
	for i, v := range verdicts {
		refuses := v.Refuses && (hooks[i].Mutating || v.Filter != SideEffects) // which validating webhooks are asked at the same time
		if !refuses && !v.mayRefuse {
			continue
		}
		for j, other := range verdicts {
			reached := j > i || !hooks[i].Mutating && !hooks[j].Mutating
			switch {
			case j == i || !reached || !other.Called && other.Filter != Unknown:
			case refuses:
				verdicts[j] = skip(Refused, "the API server refuses the request because of the webhook %s", hooks[i].Name)
			case other.Called:
				verdicts[j] = skip(Unknown, "called, unless the API server refuses the request because of the webhook %s", hooks[i].Name)
			}
		}
		if refuses {
			break
		}
	}
	return verdicts
}

// Compare orders two configurations of a kind as the API server asks them: those in its files first, then by their names.
func Compare(a, b string) int {
	if onDisk := OnDisk(a); onDisk != OnDisk(b) {
		if onDisk {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// resource returns the resource that the client named.
func (r Request) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource(valueOr(r.RequestResource, r.Resource))
}

// kind returns the kind that the client named.
func (r Request) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind(valueOr(r.RequestKind, r.Kind))
}

// subresource returns the subresource that the client named.
func (r Request) subresource() string { return cmp.Or(r.RequestSubResource, r.SubResource) }

// fullName returns the resource as rules name it, such as pods/status.
func (r Request) fullName() string {
	if sub := r.subresource(); sub != "" {
		return r.resource().Resource + "/" + sub
	}
	return r.resource().Resource
}

// dryRunnable decides for dry runs, which a webhook with side effects would spoil.
func (r Request) dryRunnable(h Hook) Verdict {
	is := valueOr(h.SideEffects, registration.SideEffectClassUnknown)
	if !valueOr(r.DryRun, false) || is == registration.SideEffectClassNone || is == registration.SideEffectClassNoneOnDryRun {
		return Verdict{}
	}
	v := skip(SideEffects, "is %s, so the API server refuses the dry run; declare None or NoneOnDryRun if that is true", is)
	v.Refuses = true
	return v
}

// isNamespaces reports whether the request is about Namespaces. Their Namespace is their own name.
func (r Request) isNamespaces() bool { return r.resource().Resource == "namespaces" }

// valueOr returns the value of a field, or its default.
func valueOr[T any](field *T, unset T) T {
	if field == nil {
		return unset
	}
	return *field
}

// RulesOf returns the rules of what a policy matches.
func RulesOf(m *registration.MatchResources) (all []registration.RuleWithOperations) {
	if m == nil {
		return nil
	}
	for _, r := range m.ResourceRules {
		all = append(all, r.RuleWithOperations)
	}
	return all
}

// ReadsObject reports whether it may depend on the object whether the webhook is called.
func (h Hook) ReadsObject() bool {
	return !selector.Empty(h.ObjectSelector) || len(h.MatchConditions) > 0
}
