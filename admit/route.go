package admit

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"usher.dev/usher/admit/gate"
)

// Route is one path: which requests it is for, how the API server should call it, and what it does. The server, the
// shipped webhook configurations, `usherctl review` and the docs are derived from it. A row of a suite's table sets only
// what is particular to it; OfSuite fills in the rest, and methods return what follows from other fields.
type Route struct {
	Path  string
	Suite string    // the name of its suite, set by OfSuite
	Gate  gate.Name // the feature gate that switches the route; empty: always on

	// For matches the requests that the chain is for; it may depend on the policy. A row that leaves it empty gets those that
	// its steps judge, see Chain.For. Other requests for these resources pass untouched; a request about another kind of
	// object is an error of the caller. A route for nothing is served, so that an older registration does no harm, but not
	// registered.
	For []Match
	// Off is set for a route that its gate, or the gates of all its steps, switch off. It is served for the same reason:
	// every review is allowed, with a warning.
	Off bool

	Call                                      // in a row: where it differs from the suite's usual Call
	Conditions  []registration.MatchCondition // CEL conditions on the requests; none: all requests
	NotForUsher bool                          // requests by usher itself are excluded
	// Reads are the fields that the steps depend on, such as metadata.labels. Updates that leave them unchanged are not
	// sent to the route, and so succeed even while usher is unavailable. If it is empty, all updates are sent.
	Reads []string

	// Exempt returns why a request passes untouched, or "". It may be nil. It is only called for requests with an
	// object.
	Exempt func(*Request) string

	Chain Chain

	// Limit takes a request into account in the limits of the policy, and returns the limit that it exceeds, if any. It
	// may be nil. It is only called for requests that the chain would run for.
	Limit func(*Request) LimitExceeded
}

// Call says how the API server should call a route.
type Call struct {
	FailurePolicy  registration.FailurePolicyType
	TimeoutSeconds int32
	Reinvocation   registration.ReinvocationPolicyType // for mutating routes
	// OptIn is the label that a namespace, or a cluster-scoped object, must have. If it is zero, all match except
	// kube-system and usher's own namespace.
	OptIn Label
}

// ReinvokeIf returns a Call by which the API server calls the webhook again after others have changed the object, if
// needed is true, and otherwise as the suite says.
func ReinvokeIf(needed bool) Call {
	if !needed {
		return Call{}
	}
	return Call{Reinvocation: registration.IfNeededReinvocationPolicy}
}

// IgnoreUnless returns a Call by which a failing webhook stops no request, unless it may refuse, and otherwise as the suite says.
func IgnoreUnless(refuses bool) Call {
	if refuses {
		return Call{}
	}
	return Call{FailurePolicy: registration.Ignore}
}

// LimitExceeded describes a limit of the policy that a request exceeds. The zero value means none.
type LimitExceeded struct {
	Limit string
	// Refuse reports whether the request is refused; otherwise it is only counted and logged.
	Refuse bool
	// Wait is the time until the limit allows another request.
	Wait time.Duration
}

// Label is a label's key and value. The zero value is no label.
type Label struct{ Key, Value string }

// ExemptLabel on a namespace, with the value "true", keeps usher away from what is in it: for what must come back without usher, such as
// DNS, network and storage. Users who may label namespaces may set it, as they may loosen Pod Security.
const ExemptLabel = "usher.dev/exempt"

// NamespacesFor selects the namespaces that routes with the label as OptIn are for.
func (l Label) NamespacesFor() labels.Selector {
	exempt, _ := labels.NewRequirement(ExemptLabel, selection.NotIn, []string{"true"})
	return labels.SelectorFromSet(l.AsMap()).Add(*exempt)
}

// AsMap returns the label as a map for selectors, or nil.
func (l Label) AsMap() map[string]string {
	if l == (Label{}) {
		return nil
	}
	return map[string]string{l.Key: l.Value}
}

// OfSuite completes the rows of a suite's table: it sets their suite, and fills in the fields of Call that a row leaves
// empty from usual, and For from the chain. For heartbeats Call is fixed: they pass while usher is unavailable, wait for it at most 2 s, and
// are not reinvoked.
func OfSuite(suite string, usual Call, rows []Route) []Route {
	for i := range rows {
		r := &rows[i]
		r.Suite, r.Call = suite, r.Call.or(usual)
		if r.For == nil {
			r.For = r.Chain.For()
		}
		if r.Heartbeat() {
			r.Call = Call{registration.Ignore, 2, registration.NeverReinvocationPolicy, r.OptIn}
		}
	}
	return rows
}

// or returns c with its empty fields taken from usual.
func (c Call) or(usual Call) Call {
	return Call{
		cmp.Or(c.FailurePolicy, usual.FailurePolicy), cmp.Or(c.TimeoutSeconds, usual.TimeoutSeconds), cmp.Or(c.Reinvocation, usual.Reinvocation),
		cmp.Or(c.OptIn, usual.OptIn),
	}
}

// Webhook returns the route's name in a webhook configuration, which must have three segments.
func (r Route) Webhook() string { return strings.TrimPrefix(r.Path, "/") + ".usher.dev" }

// SideEffects returns the route's side effect class: a validator with a Commit has side effects, see Validator.
func (r Route) SideEffects() registration.SideEffectClass {
	if r.Chain.Commits() {
		return registration.SideEffectClassNoneOnDryRun
	}
	return registration.SideEffectClassNone
}

// JudgesItself reports whether the route covers a request for more than the pods of a workload: a step judges the object itself.
func (r Route) JudgesItself(req *Request) bool {
	ofPods := false
	for _, s := range r.Chain.steps {
		if s.Idle || s.For != nil && !covers(s.For, req) {
			continue
		}
		if !s.ofPods {
			return r.Covers(req)
		}
		ofPods = true
	}
	return r.Covers(req) && !ofPods
}

// Updates reports whether the route is for updates, which may depend on the policy.
func (r Route) Updates() bool {
	return slices.ContainsFunc(r.For, func(m Match) bool { return slices.Contains(m.Operations, admissionv1.Update) })
}

// Changes reports whether a request changes any of the fields in Reads. Requests that are not updates always do.
func (r Route) Changes(req *Request) bool {
	if len(r.Reads) == 0 || req.Operation != admissionv1.Update || req.Object == nil || req.OldObject == nil {
		return true
	}
	return slices.ContainsFunc(r.Reads, func(field string) bool {
		path := strings.Split(field, ".")
		return !bytes.Equal(req.Object.Root().At(path...).Bytes(), req.OldObject.Root().At(path...).Bytes())
	})
}
