package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// Outcome says how a review ended.
type Outcome string

// The outcomes, and what the caller receives:
//
//	allowed   nothing to change, or not for us   200, allowed: true
//	mutated   allowed with a patch               200, allowed: true, patch
//	denied    the user's fault                   200, allowed: false, status
//	invalid   the caller's fault                 400, 413, 415 and a text
//	error     our fault                          500, or 503 with Retry-After
//	shed      too much to do at once             503 with Retry-After
//	limited   beyond a limit of the policy       429 with Retry-After
//	canceled  the caller went away               499, if it still reads
//	unauthenticated  not a known caller          401
const (
	Allowed  Outcome = "allowed"
	Mutated  Outcome = "mutated"
	Denied   Outcome = "denied"
	Invalid  Outcome = "invalid"
	Failed   Outcome = "error"
	Shed     Outcome = "shed"
	Limited  Outcome = "limited"
	Canceled Outcome = "canceled"

	Unauthenticated Outcome = "unauthenticated"
)

// Decision is the answer to one review and how it came about.
type Decision struct {
	Outcome Outcome
	Code    int // the HTTP status; of a denial, the code of its status
	// Type and Response are the answer. If the outcome is none of allowed, mutated and denied, they are unset and Err says
	// why.
	Type     metav1.TypeMeta
	Response *admissionv1.AdmissionResponse
	Err      error
	text     string // of the answer, if there is no response
	retry    int    // seconds after which a retry helps; 0: it does not
	Stack    []byte // of a panic, in a step or elsewhere

	Request *admit.Request // nil if it could not be read
	Result  admit.Result
	// Untouched says why the chain was not run; "" if it was.
	Untouched string
	// Refusal is the short id of a denial, which its message ends with; see refusalID.
	Refusal string
	// Exceeded is the limit of the policy that the request exceeds, if any.
	Exceeded admit.LimitExceeded
}

// Decide answers a review by the chain of its route. If after is not nil, it is called after each step. A panic is handled
// as our own failure.
func Decide(ctx context.Context, r admit.Route, body []byte, after admit.After) (d Decision) {
	defer func() {
		if cause := recover(); cause != nil {
			d.Stack = debug.Stack()
			d.conclude(ctx, r, errors.New("panic: "+admit.CauseOfPanic(cause)))
		}
	}()
	var err error
	if d.Type, d.Request, err = ReadReview(body); err != nil {
		d.fail(err)
		return d
	}
	if why := r.Misrouted(d.Request); why != "" {
		d.fail(badReview("%s", why))
		return d
	}
	if isCanary(d.Request) {
		d.Request.Warnf("%s", CanaryAnswer(r.Path))
	}
	switch d.Untouched = r.Untouched(d.Request); {
	case r.Unused() != "":
		d.Request.Warnf("usher: %s; nothing was checked. To unregister it: usher webhooks apply", d.Untouched)
	case d.Untouched != "":
	case d.Request.Operation == admissionv1.Delete && d.Request.OldObject == nil:
		err = badReview("request.oldObject is missing: a DELETE is about the stored object")
	case d.Request.Subject() == nil:
		err = badReview("request.object is missing: a %s is about it", d.Request.Operation)
	case d.limited(r):
		err = &rateLimitedError{d.Exceeded, retryAfter(ctx, d.Exceeded.Wait)}
	default:
		d.Result, err = run(ctx, r, d.Request, after)
		if panicked, ok := errors.AsType[*admit.PanicError](err); ok {
			d.Stack = panicked.Stack
		}
	}
	d.conclude(ctx, r, err)
	return d
}

// limitsStep is the step name in messages and audit annotations for requests that are refused before any step has run.
const limitsStep = "limits"

// run runs the chain, unless the object is larger than a chain should process.
func run(ctx context.Context, r admit.Route, req *admit.Request, after admit.After) (admit.Result, error) {
	if err := checkContainers(req); err != nil {
		return admit.Result{Problems: []admit.Problem{{Step: limitsStep, Error: err}}}, nil
	}
	return r.Chain.Run(ctx, req, after)
}

// conclude sets the outcome and the answer from the result of the chain; err is our own failure.
func (d *Decision) conclude(ctx context.Context, r admit.Route, err error) {
	switch {
	case r.Heartbeat() && d.Request != nil && (err != nil || len(d.Result.Problems) > 0):
		d.allowUnchanged(err)
	case errors.Is(err, context.Canceled) && ctx.Err() == nil: // the caller is still waiting, so this is our failure
		d.fail(fmt.Errorf("a step gave up although its caller waits: %s", err.Error())) // not as one that the caller canceled
	case err != nil:
		d.fail(err)
	case len(d.Result.Problems) > 0:
		d.deny()
	default:
		d.allow(r.Chain.Mutates())
	}
}

func (d *Decision) allow(mutates bool) {
	d.Outcome, d.Code, d.Response = Allowed, http.StatusOK, d.respond(true)
	if !mutates || d.Request.Object == nil {
		return
	}
	patch := d.Request.Object.PatchJSON()
	if patch == nil {
		return
	}
	d.Outcome, d.Response.Patch, d.Response.PatchType = Mutated, patch, &jsonPatch
}

// jsonPatch is the type of all patches. It does not change.
var jsonPatch = admissionv1.PatchTypeJSONPatch

// allowUnchanged answers a heartbeat that failed or was refused: it is allowed unchanged, with a warning.
func (d *Decision) allowUnchanged(err error) {
	d.Request.DropAuditAnnotations()
	if err != nil {
		d.Err = err
		d.Request.Tolerate("failed", "usher failed and left the node as it is; its log says why")
	} else {
		reason := "unreadable"
		if d.Result.Problems[0].Type == field.ErrorTypeTooLong {
			reason = "too-large"
		}
		d.Request.Tolerate(reason, "left the node as it is: %s", d.Result.Problems[0].Error)
	}
	d.Result = admit.Result{}
	d.Outcome, d.Code, d.Response = Allowed, http.StatusOK, d.respond(true)
}

// Unchecked reports whether a review was allowed only because its route is unused.
func (d Decision) Unchecked(r admit.Route) bool { return r.Unused() != "" && d.Response != nil }

// limited reports whether a limit of the policy refuses a request. A heartbeat is never refused.
func (d *Decision) limited(r admit.Route) bool {
	if r.Limit == nil {
		return false
	}
	d.Exceeded = r.Limit(d.Request)
	return d.Exceeded.Refuse && !r.Heartbeat()
}

// isCanary reports whether the request is the dry run of a canary.
func isCanary(r *admit.Request) bool {
	if !r.DryRun || r.Object == nil || !bytes.Contains(r.Object.Sent(), []byte(CanaryAnnotation)) {
		return false // without a handle of the annotations, which could change the order of a patch
	}
	_, marked := admit.MetaOf(r.Object.Root()).Annotation(CanaryAnnotation)
	return marked
}

// respond makes a response; no other function does. The patch is added by allow, the status by deny.
func (d *Decision) respond(allowed bool) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{
		UID:              d.Request.UID,
		Allowed:          allowed,
		Warnings:         d.Request.Warnings(),
		AuditAnnotations: d.Request.AuditAnnotations(),
	}
}
