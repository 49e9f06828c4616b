// Package review is `usherctl review`: it sends manifests and AdmissionReviews through the routes without a server, as an API server would, and
// shows what becomes of them.
package review

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	applier "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// Kinds make a typed object for each kind that a route is for.
type Kinds = map[metav1.GroupVersionKind]func() any

// Run sends a review through the chosen routes in order, each seeing what those before made of the object. By kinds it warns of fields that a
// patch adds and the type does not know.
func Run(ctx context.Context, d requests.Document, body []byte, choice Choice, kinds Kinds) report.Report {
	r := reviewed{report.Report{Subject: d.Subject(), Verdict: report.Allowed, Sections: report.Sections{NotCalled: choice.NotCalled},
		Hint: choice.Hint}}
	if d.Duplicate != nil {
		r.Warnings = []string{d.Duplicate.Error() + ": the last value counts"}
	}
	if size := sizeOf(body); size > handlers.MaxBody && (d.IsReview() || choice.api == nil) {
		return r.Failing(tooLarge("", size))
	}
	_, req, err := handlers.ReadReview(body)
	if err != nil {
		return r.Failing(report.Call{Outcome: string(handlers.Invalid), Code: 400, Message: err.Error()})
	}
	defer req.Release()
	r.describe(req)
	if choice.api != nil && !d.IsReview() {
		return r.judged(ctx, d, req, choice)
	}
	if len(choice.Routes) == 0 {
		r.Verdict = report.Skipped
	}
	if !r.callAll(ctx, body, choice) {
		return r.Report
	}
	r.judge()
	if slices.Contains([]report.Verdict{report.Allowed, report.NotJudged}, r.Verdict) {
		r.warnUnknown(requests.TypeOf(schema.GroupVersionKind(req.Kind), kinds))
	}
	return r.Report
}

// reviewed is the report of a review that is being made.
type reviewed struct{ report.Report }

// callAll calls the chosen routes in order. It returns false, and the report is an error, if the object that one of them returned cannot
// be sent to the next.
func (r *reviewed) callAll(ctx context.Context, body []byte, choice Choice) bool {
	for _, route := range choice.Routes {
		call, after := callRoute(ctx, route, body, choice)
		if after != nil {
			r.After = after
			with, err := requests.WithObject(body, after)
			if err != nil {
				r.Report = r.Failing(report.Call{Path: route.Path, Outcome: string(handlers.Failed), Message: err.Error()})
				return false
			}
			body = with
		}
		r.Calls = append(r.Calls, call)
		if route.Chain.Mutates() && !passed(call) { // validating webhooks are all called, as by an API server
			break
		}
	}
	return true
}

// sizeOf returns the bytes of a review as an API server sends it, without white space.
func sizeOf(body []byte) int {
	var compact bytes.Buffer
	if len(body) <= handlers.MaxBody || json.Compact(&compact, body) != nil {
		return len(body)
	}
	return compact.Len()
}

func (r *reviewed) describe(req *admit.Request) {
	r.Kind, r.Namespace, r.Name, r.Operation = req.Kind.Kind, req.Namespace, req.ObjectName(), string(req.Operation)
	if req.SubResource != "" {
		r.Kind += "/" + req.SubResource
	}
	if req.Object == nil {
		return
	}
	r.Before = slices.Clone(req.Object.Bytes())
	r.After = r.Before
}

// callRoute lets one route decide, and applies its patch as the API server would; after is nil if there is none.
func callRoute(ctx context.Context, route admit.Route, body []byte, choice Choice) (call report.Call, after json.RawMessage) {
	call, d := decide(ctx, route, body, choice)
	if d.Response == nil {
		return call, nil
	}
	after, err := apply(&call, d)
	if err != nil {
		call.Outcome, call.Message = string(handlers.Failed), err.Error()
	}
	return call, after
}

// decide lets one route decide.
func decide(ctx context.Context, route admit.Route, body []byte, choice Choice) (call report.Call, d handlers.Decision) {
	call.Path = route.Path
	if choice.Recorded {
		call.Review = bytes.Clone(body)
	}
	var before []report.Operation
	d = handlers.Decide(ctx, route, body, func(req *admit.Request, done admit.StepResult) {
		var now []report.Operation
		if req.Object != nil { // null for DELETE
			now = operations(req.Object.Patch())
		}
		s := step(done, before, now)
		if choice.TakeUnknown != nil {
			s.Unknown = choice.TakeUnknown()
		}
		if choice.Documents && req.Object != nil {
			s.After, s.Took = slices.Clone(req.Object.Bytes()), done.Duration
		}
		call.Steps = append(call.Steps, s)
		before = now
	})
	if (choice.Documents || choice.Recorded) && d.Request != nil && d.Request.Object != nil {
		call.Before = slices.Clone(d.Request.Object.Sent())
	}
	call.Outcome, call.Code, call.Untouched, call.Refusal = string(d.Outcome), d.Code, d.Untouched, d.Refusal
	if d.Err != nil {
		call.Message = d.Err.Error()
		if choice.TakeUnknown != nil {
			call.FailedFor = choice.TakeUnknown()
		}
	}
	if d.Response == nil {
		return call, d
	}
	call.Warnings, call.Audit = d.Response.Warnings, d.Response.AuditAnnotations
	if status := d.Response.Result; status != nil {
		call.Message, call.Reason, call.Causes = status.Message, string(status.Reason), status.Details.Causes
	}
	return call, d
}

// apply returns the object with the patch of a decision, which the call gets.
func apply(c *report.Call, d handlers.Decision) (json.RawMessage, error) {
	if len(d.Response.Patch) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(d.Response.Patch, &c.Patch); err != nil {
		return nil, fmt.Errorf("the patch is no JSON patch: %w", err)
	}
	patch, err := applier.DecodePatch(d.Response.Patch)
	if err != nil {
		return nil, fmt.Errorf("the patch is no JSON patch: %w", err)
	}
	after, err := patch.Apply(d.Request.Object.Sent())
	if err != nil {
		return nil, fmt.Errorf("the API server could not apply the patch: %w", err)
	}
	return after, nil
}

// step returns the result of a step: its part of the patch is the operations that were not in the patch before it.
func step(done admit.StepResult, before, now []report.Operation) report.Step {
	s := report.Step{Name: done.Name, Mode: string(done.Mode), Why: done.Why}
	if done.Override != nil {
		s.Override = done.Override.Name
	}
	for _, refused := range done.Refused {
		s.Refused = append(s.Refused, refused.Error())
	}
	for _, o := range now {
		if !slices.ContainsFunc(before, func(b report.Operation) bool { return b.String() == o.String() }) {
			s.Patch = append(s.Patch, o)
		}
	}
	return s
}

func operations(patch []jsonpatch.Operation) (list []report.Operation) {
	for _, o := range patch {
		value, _ := o.Value.(json.RawMessage)
		list = append(list, report.Operation{Op: o.Operation, Path: o.Path, Value: value})
	}
	return list
}
