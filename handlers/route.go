// Package handlers is the only room that knows HTTP and AdmissionReview: it reads a review, lets a chain decide, and writes
// the answer.
package handlers

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/gate"
)

// Route is one path: which requests it is for, how the API server should call it, and what it does. The server, the shipped
// webhook configurations, `usher review` and the docs are made from it. A row of a suite's table states what is its own; OfSuite fills in the
// rest, and what follows from other fields is a method.
type Route struct {
	Path  string
	Suite string    // the name of its suite, set by OfSuite
	Gate  gate.Name // the feature gate that switches the route; empty: always on

	// For is the requests that the chain is for. Other requests about these resources pass untouched; those about another kind of
	// object are a mistake of the caller.
	For Match

	Call                                      // in a row: the exceptions from what is usual in the suite
	Conditions  []registration.MatchCondition // which of these requests it wants, in CEL; none: all
	NotForUsher bool                          // usher's own requests are not wanted
	// Reads are the fields whose change the steps look at, such as metadata.labels: an update that leaves them as they are is not
	// called for, so that it passes while usher is away. None: every update is called for.
	Reads []string

	// Exempt returns why a request passes untouched, or "". Nil: none does. The request has an object.
	Exempt func(*admit.Request) string

	Chain admit.Chain
}

// Call is how the API server should call a route.
type Call struct {
	FailurePolicy  registration.FailurePolicyType
	TimeoutSeconds int32
	Reinvocation   registration.ReinvocationPolicyType // of mutating routes
	// OptIn is the label that a namespace, or a cluster-scoped object, must carry. Empty: all do but kube-system and usher's own.
	OptIn Label
}

// Label is a key and its value. The zero value is no label.
type Label struct{ Key, Value string }

// AsMap returns the label as selectors write it, or nil.
func (l Label) AsMap() map[string]string {
	if l == (Label{}) {
		return nil
	}
	return map[string]string{l.Key: l.Value}
}

// OfSuite completes the rows of a suite's table: each is of the suite, and called as is usual there where the row states no exception. For
// heartbeats there is none: they pass while usher is away, wait for it 2 s at most, and are not amplified twice.
func OfSuite(suite string, usual Call, rows []Route) []Route {
	for i := range rows {
		r := &rows[i]
		r.Suite, r.Call = suite, r.Call.or(usual)
		if r.Heartbeat() {
			r.Call = Call{registration.Ignore, 2, registration.NeverReinvocationPolicy, r.OptIn}
		}
	}
	return rows
}

// or is the call with what it leaves out as usual.
func (c Call) or(usual Call) Call {
	return Call{
		cmp.Or(c.FailurePolicy, usual.FailurePolicy), cmp.Or(c.TimeoutSeconds, usual.TimeoutSeconds), cmp.Or(c.Reinvocation, usual.Reinvocation),
		cmp.Or(c.OptIn, usual.OptIn),
	}
}

// Webhook is the route's name in a webhook configuration, which must have three segments.
func (r Route) Webhook() string { return strings.TrimPrefix(r.Path, "/") + ".usher.dev" }

// SideEffects says whether the route leaves anything behind outside of the object: where a check commits, see admit.Validator.
func (r Route) SideEffects() registration.SideEffectClass {
	if r.Chain.Commits() {
		return registration.SideEffectClassNoneOnDryRun
	}
	return registration.SideEffectClassNone
}

// Heartbeat reports whether kubelets write their nodes' status through the route. It never refuses and never fails then: whatever goes wrong,
// the write passes as it is, with a warning.
func (r Route) Heartbeat() bool { return slices.Contains(r.For.Resources, nodeStatus) }

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
