package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	applier "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/suite"
)

// Report is what became of one object. Its JSON form is what `usher review -o json` prints; fields are only ever added.
type Report struct {
	// Source is the file, and which document of it.
	Source string `json:"source"`
	// Kind, Namespace, Name and Operation say what was reviewed.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Operation string `json:"operation"`
	// Verdict is "allowed", "denied" or "error".
	Verdict string `json:"verdict"`
	// Calls are the routes that were called, in order. A denial or an error ends them.
	Calls []Call `json:"calls"`
	// Before is the object as it came, After as it would be stored.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Remarks are what suites say beside the calls. In JSON each is a member of its own.
	Remarks []suite.Remark `json:"-"`
	// Hint says what to try when no route was called.
	Hint string `json:"hint,omitempty"`
}

// MarshalJSON writes the remarks as members before the hint.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report // without this method
	hint := r.Hint
	r.Hint = ""
	text, err := json.Marshal(plain(r))
	if err != nil {
		return nil, err
	}
	members := r.Remarks
	if hint != "" {
		members = append(slices.Clip(members), suite.Remark{Name: "hint", Value: hint})
	}
	text = text[:len(text)-1]
	for _, m := range members {
		value, err := json.Marshal(m.Value)
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, ",%q:%s", m.Name, value)
	}
	return append(text, '}'), nil
}

// Call is what one route did.
type Call struct {
	Path    string `json:"path"`
	Outcome string `json:"outcome"` // allowed, mutated, denied, invalid or error
	Code    int    `json:"code"`
	Reason  string `json:"reason,omitempty"`
	// Message says why not, Untouched why the steps were not run.
	Message   string               `json:"message,omitempty"`
	Untouched string               `json:"untouched,omitempty"`
	Causes    []metav1.StatusCause `json:"causes,omitempty"`
	Warnings  []string             `json:"warnings,omitempty"`
	Audit     map[string]string    `json:"audit,omitempty"`
	Steps     []Step               `json:"steps,omitempty"`
	Patch     []Operation          `json:"patch,omitempty"`
}

// Step is what one step did.
type Step struct {
	Name    string   `json:"name"`
	Mode    string   `json:"mode"`
	Refused []string `json:"refused,omitempty"`
	// Patch is the operations of the patch that the step added or made larger.
	Patch []Operation `json:"patch,omitempty"`
}

// Operation is one operation of a JSON patch.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Kinds make a typed object for each kind that a route is for.
type Kinds = map[metav1.GroupVersionKind]func() any

// Run sends a review through routes in order, each seeing what those before made of the object. By kinds it warns of fields that a patch
// adds and the type does not know.
func Run(ctx context.Context, source string, body []byte, routes []handlers.Route, kinds Kinds) Report {
	report := Report{Source: source, Verdict: "allowed", Calls: []Call{}}
	_, req, err := handlers.ReadReview(body)
	if err != nil {
		return report.fail(Call{Outcome: string(handlers.Invalid), Code: 400, Message: err.Error()})
	}
	report.describe(req)
	for _, route := range routes {
		call, after := callRoute(ctx, route, body)
		if after != nil {
			report.After = after
			if body, err = replaceObject(body, after); err != nil {
				return report.fail(Call{Path: route.Path, Outcome: string(handlers.Failed), Message: err.Error()})
			}
		}
		switch handlers.Outcome(call.Outcome) {
		case handlers.Denied:
			report.Calls, report.Verdict = append(report.Calls, call), "denied"
			return report
		case handlers.Invalid, handlers.Failed, handlers.Canceled:
			return report.fail(call)
		}
		report.Calls = append(report.Calls, call)
	}
	report.warnUnknown(kinds[req.Kind])
	return report
}

func (r Report) fail(call Call) Report {
	r.Calls, r.Verdict = append(r.Calls, call), "error"
	return r
}

func (r *Report) describe(req *admit.Request) {
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
func callRoute(ctx context.Context, route handlers.Route, body []byte) (call Call, after json.RawMessage) {
	call.Path = route.Path
	var before []Operation
	d := route.Decide(ctx, body, func(req *admit.Request, done admit.StepResult) {
		now := operations(req.Object.Patch())
		call.Steps = append(call.Steps, step(done, before, now))
		before = now
	})
	call.Outcome, call.Code, call.Untouched = string(d.Outcome), d.Code, d.Untouched
	if d.Err != nil {
		call.Message = d.Err.Error()
	}
	if d.Response == nil {
		return call, nil
	}
	call.Warnings, call.Audit = d.Response.Warnings, d.Response.AuditAnnotations
	if status := d.Response.Result; status != nil {
		call.Message, call.Reason, call.Causes = status.Message, string(status.Reason), status.Details.Causes
	}
	after, err := call.apply(d)
	if err != nil {
		call.Outcome, call.Message = string(handlers.Failed), err.Error()
	}
	return call, after
}

func (c *Call) apply(d handlers.Decision) (json.RawMessage, error) {
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

// step says what a step did: its part of the patch is what was not in the patch before it.
func step(done admit.StepResult, before, now []Operation) Step {
	s := Step{Name: done.Name, Mode: string(done.Mode)}
	for _, refused := range done.Refused {
		s.Refused = append(s.Refused, refused.Error())
	}
	for _, o := range now {
		if !slices.ContainsFunc(before, func(b Operation) bool { return b.String() == o.String() }) {
			s.Patch = append(s.Patch, o)
		}
	}
	return s
}

func operations(patch []jsonpatch.Operation) (list []Operation) {
	for _, o := range patch {
		value, _ := o.Value.(json.RawMessage)
		list = append(list, Operation{o.Operation, o.Path, value})
	}
	return list
}

// replaceObject puts the patched object into the review for the next route.
func replaceObject(body, object []byte) ([]byte, error) {
	var review map[string]json.RawMessage
	var request map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(body, &review), json.Unmarshal(review["request"], &request)); err != nil {
		return nil, err
	}
	request["object"] = object
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	review["request"] = raw
	return json.Marshal(review)
}

// Choose picks the routes that the API server would call for a review, mutating ones first; path picks one whatever the
// request.
func Choose(body []byte, path string, routes []handlers.Route) ([]handlers.Route, error) {
	if path != "" {
		i := slices.IndexFunc(routes, func(r handlers.Route) bool { return r.Path == path })
		if i < 0 {
			return nil, fmt.Errorf("--path %s: there is no such route; `usher steps` lists them", path)
		}
		return routes[i : i+1], nil
	}
	_, req, err := handlers.ReadReview(body)
	if err != nil {
		return nil, nil // Run reports it
	}
	var mutating, validating []handlers.Route
	for _, r := range routes {
		switch {
		case !r.Covers(req) || !r.Changes(req):
		case r.Chain.Mutates():
			mutating = append(mutating, r)
		default:
			validating = append(validating, r)
		}
	}
	return append(mutating, validating...), nil
}

// Hint says how to reach a route for a kind of object that was sent in another way.
func Hint(body []byte, routes []handlers.Route) string {
	_, req, err := handlers.ReadReview(body)
	if err != nil {
		return ""
	}
	for _, r := range routes {
		if r.Covers(req) {
			return "no route is called for an update that changes nothing in " + strings.Join(r.Reads, ", ") +
				"; --old names the stored object of a manifest, --path calls a route all the same"
		}
	}
	for _, r := range routes {
		if r.For.Kind == req.Kind && len(r.For.Operations) > 0 {
			hint := "no route is called for this; try --operation " + string(r.For.Operations[0])
			if _, sub, ok := strings.Cut(r.For.Resources[0], "/"); ok {
				hint += " --subresource " + sub
			}
			return hint
		}
	}
	return "no route is for this kind of object; `usher steps` lists the routes"
}
