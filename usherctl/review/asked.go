package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// asking is a request to the API server, whose calls of usher are answered in this process.
type asking struct {
	mu     sync.Mutex // the API server calls validating webhooks side by side
	choice Choice
	calls  map[string][]report.Call // by callKey, each in the order of its rounds
}

type askingKey struct{}

// answerOf answers the call of a webhook. The answers of others are those of a file, or not known.
func answerOf(ctx context.Context, w engine.Registered, review []byte) (engine.Answer, error) {
	a, _ := ctx.Value(askingKey{}).(*asking)
	if a == nil {
		return engine.Answer{}, engine.ErrNoAnswer
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !strings.HasSuffix(w.Name, ".usher.dev") {
		return a.foreign(w, review)
	}
	i := slices.IndexFunc(a.choice.chooser.Routes, func(r admit.Route) bool { return r.Path == w.Path })
	if i < 0 {
		return engine.Answer{}, engine.ErrNoAnswer
	}
	call, d := decide(ctx, a.choice.chooser.Routes[i], review, a.choice)
	if d.Request != nil {
		defer d.Request.Release()
	}
	if len(review) > handlers.MaxBody {
		call, d = tooLarge(w.Path, len(review)), handlers.Decision{Code: http.StatusRequestEntityTooLarge}
	}
	if d.Response != nil && len(d.Response.Patch) > 0 {
		if err := json.Unmarshal(d.Response.Patch, &call.Patch); err != nil {
			return engine.Answer{}, err
		}
		warnDropped(&call, d, d.Request.Object.Bytes()) // the API server applies the patch
	}
	a.calls[callKey(w)] = append(a.calls[callKey(w)], call)
	return answered(d, call)
}

// warnDropped adds warnings of the fields of a patch that the API server drops.
func warnDropped(call *report.Call, d handlers.Decision, after json.RawMessage) {
	gvk := schema.GroupVersionKind(d.Request.Kind)
	call.Warnings = append(call.Warnings, dropped(requests.TypeOf(gvk, nil), d.Request.Object.Sent(), after)...)
}

func callKey(w engine.Registered) string { return w.Configuration + "/" + w.Name }

func tooLarge(path string, size int) report.Call {
	return report.Call{Path: path, Outcome: string(handlers.Invalid), Code: http.StatusRequestEntityTooLarge,
		Message: fmt.Sprintf("the review is %.1f MiB, and a server reads up to %d MiB", float64(size)/(1<<20), handlers.MaxBody>>20)}
}

// answered returns a decision as the server sends it.
func answered(d handlers.Decision, call report.Call) (engine.Answer, error) {
	if d.Response == nil {
		return engine.Answer{Code: d.Code, Body: []byte(call.Message)}, nil
	}
	text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: d.Type, Response: d.Response})
	return engine.Answer{Body: text}, err
}

// ask lets the API server judge a request, and returns its verdict and the calls with an answer, in their order.
func (c Choice) ask(ctx context.Context, r engine.Request) (engine.Verdict, []report.Call) {
	a := &asking{choice: c, calls: map[string][]report.Call{}}
	v := c.api.engine.Judge(context.WithValue(ctx, askingKey{}, a), r)
	var calls []report.Call
	for _, call := range v.Calls {
		answered := a.calls[callKey(call.Registered)]
		if call.Round >= len(answered) {
			continue
		}
		is := answered[call.Round]
		if call.Round > 0 {
			is.Round = call.Round + 1
		}
		if call.Round == 0 || !idle(is) {
			calls = append(calls, is)
		}
	}
	return v, calls
}

// podKind is the kind of pods.
var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// requestOf returns the request to the API server that an AdmissionReview of a manifest stands for.
func requestOf(d requests.Document, req *admit.Request, strict bool) engine.Request {
	r := engine.Request{Kind: schema.GroupVersionKind(req.Kind), Name: req.Name, Namespace: req.Namespace, SubResource: req.SubResource,
		Operation: req.Operation, User: req.UserInfo.Username, Groups: req.UserInfo.Groups, DryRun: req.DryRun, Strict: strict, Record: true}
	if req.Object != nil {
		r.Object = req.Object.Bytes()
	}
	if r.SubResource == "" && r.Operation == admissionv1.Create {
		r.New = true
		return r
	}
	manifest := objectOf(d.JSON)
	if r.Kind = manifest.GroupVersionKind(); schema.GroupVersionKind(req.Kind) == r.Kind && req.OldObject != nil {
		r.Old = req.OldObject.Bytes()
		return r
	}
	if parent := parentOf(req.Resource); !parent.Empty() && parent != r.Kind {
		r.Kind = parent // the manifest is of the subresource, such as a Binding
		manifest = assumed(parent, req)
	}
	node, _, _ := unstructured.NestedString(manifest.Object, "spec", "nodeName")
	if r.Operation == admissionv1.Connect && r.Kind == podKind && node == "" {
		_ = unstructured.SetNestedField(manifest.Object, "node", "spec", "nodeName") // nobody connects to a pod without
	}
	manifest.SetNamespace(req.Namespace)
	r.Old, _ = manifest.MarshalJSON()
	return r
}

// parentOf returns the kind of a resource that has subresources of other kinds; the zero value for others.
func parentOf(resource metav1.GroupVersionResource) schema.GroupVersionKind {
	kinds := map[string]string{"pods": podKind.Kind, "nodes": "Node", "services": "Service", "serviceaccounts": "ServiceAccount"}
	if kind := kinds[resource.Resource]; resource.Group == "" && kind != "" {
		return corev1.SchemeGroupVersion.WithKind(kind)
	}
	return schema.GroupVersionKind{}
}

// assumed returns the stored object of a request about a subresource, of which only the name is known.
func assumed(kind schema.GroupVersionKind, req *admit.Request) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	object.SetName(cmp.Or(req.Name, req.ObjectName()))
	if kind == podKind {
		object.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "container", "image": "image"}}}
	}
	return object
}

// judged returns the report of a manifest that the API server has judged.
func (r *reviewed) judged(ctx context.Context, d requests.Document, req *admit.Request, choice Choice) report.Report {
	var of engine.Verdict
	var ofCalls []report.Call
	request := requestOf(d, req, choice.Strict && d.Workload == nil)
	unknown := choice.Ledger.counting(&request, d)
	if d.Workload != nil {
		if of, ofCalls = choice.askWorkload(ctx, d, request.Used); !of.Allowed() {
			request.Used = nil // there will be no pods
		}
	}
	v, calls := choice.ask(ctx, request)
	choice.Ledger.add(d, request, req.Namespace, v)
	fitting(&v, request, d)
	r.Calls = calls
	r.Plugins = pluginsOf(v, choice.Documents)
	r.After, r.Stored = merged(r.Before, v.Plugins), v.Object
	r.notCalled(req, choice, v)
	routed := slices.ContainsFunc(r.Calls, func(c report.Call) bool { return c.Path != "" })
	if !routed {
		r.Verdict = report.Skipped
	}
	r.judge()
	r.warn(v.Warnings, d)
	r.refusedBy(v, schema.GroupVersionKind(req.Kind))
	if d.Workload != nil {
		r.workload(d, of, ofCalls)
	}
	if unknown != "" && v.Counted {
		v.Unjudged = append(v.Unjudged, unknown+", of which a ResourceQuota counts each")
	}
	r.afterOthers(choice.Ledger, v, req.Namespace)
	if routed {
		v.Unjudged = append(v.Unjudged, choice.notKnown(req)...)
	}
	for _, what := range v.Unjudged {
		r.notJudged(what)
	}
	if choice.Assumed && slices.ContainsFunc(r.Calls, func(c report.Call) bool { return strings.HasPrefix(c.Path, "/validate-") }) {
		r.notJudged("checks may compare the object with the stored one, which is taken to be the same; pass it by --old")
	}
	choice.Ledger.settle(d, r.Verdict)
	return r.Report
}

// afterOthers notes that a ResourceQuota refuses because of objects that may not be there.
func (r *reviewed) afterOthers(l *Ledger, v engine.Verdict, namespace string) {
	if l != nil && l.open[namespace] && v.By == quotaPlugin && r.Verdict == report.Invalid {
		r.Verdict = report.NotJudged
		r.Unjudged = append(r.Unjudged, "whether the quota has room: an object before it, which is not judged, is counted")
	}
}

// notJudged notes what is not known, so that what seems allowed may be refused.
func (r *reviewed) notJudged(what string) {
	r.Unjudged = append(r.Unjudged, what)
	if r.Verdict == report.Allowed || r.Verdict == report.Skipped {
		r.Verdict = report.NotJudged
	}
}

// notKnown says what is not known of the kind of a request on which a route is called.
func (c Choice) notKnown(req *admit.Request) []string {
	gvk := schema.GroupVersionKind(req.Kind)
	ours := func(m admit.Match) bool { return m.Kind == req.Kind }
	if !c.api.assumed[gvk] || slices.ContainsFunc(c.chooser.Routes, func(r admit.Route) bool { return slices.ContainsFunc(r.For, ours) }) {
		return nil // their routes have a type
	}
	return []string{fmt.Sprintf("no file has the CustomResourceDefinition of %s, %s: its schema and defaults are not looked at", gvk.Kind,
		gvk.GroupVersion())}
}

// notCalled explains why routes are not called.
func (r *reviewed) notCalled(req *admit.Request, choice Choice, v engine.Verdict) {
	r.NotCalled = slices.DeleteFunc(r.NotCalled, func(n report.NotCalled) bool {
		return slices.ContainsFunc(r.Calls, func(c report.Call) bool { return c.Path == n.Path })
	})
	if r.Hint = choice.Hint; r.Hint == "" && len(r.Calls)+len(r.NotCalled) == 0 && v.Refusal == nil {
		r.Hint = choice.chooser.hint(req)
	}
}

// plugins that call webhooks: what they refuse is in the calls.
var callers = []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}

// refusedBy notes a refusal that is none of usher's. What a webhook without an answer may change is not judged.
func (r *reviewed) refusedBy(v engine.Verdict, kind schema.GroupVersionKind) {
	told := slices.ContainsFunc(r.Calls, func(c report.Call) bool { return !passed(c) })
	switch {
	case v.Refusal == nil, told && slices.Contains(callers, v.By), v.Code == http.StatusMethodNotAllowed: // no API server gets such a request
		return
	case slices.ContainsFunc(v.Calls, func(c engine.Call) bool { return c.Mutates && errors.Is(c.Err, engine.ErrNoAnswer) }):
		r.Verdict = report.NotJudged
	case strings.HasSuffix(v.By, "AdmissionPolicy"):
		r.Verdict = report.Denied
		return
	default:
		r.Verdict = report.Invalid
	}
	r.Invalid = refusals(v)
	if err := undecoded(kind, r.Before); v.By == "" && err != nil {
		r.Invalid = append(r.Invalid, err.Error())
	}
}

// undecoded returns an error that names the field of a wrong type, which the API server's own error does by Go types.
func undecoded(kind schema.GroupVersionKind, raw []byte) error {
	if !requests.Typed().Recognizes(kind) {
		return nil
	}
	object, err := requests.Typed().New(kind)
	if err != nil {
		return nil
	}
	return requests.Decode(raw, object)
}

// refusals returns why the API server refuses, one a line.
func refusals(v engine.Verdict) (lines []string) {
	if v.By != "" {
		return []string{v.By + ": " + v.Refusal.Message}
	}
	if v.Refusal.Details != nil {
		for _, cause := range v.Refusal.Details.Causes {
			lines = append(lines, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
		}
	}
	if len(lines) == 0 {
		lines = []string{v.Refusal.Message}
	}
	return lines
}

// askWorkload lets the API server judge the workload of a pod.
func (c Choice) askWorkload(ctx context.Context, d requests.Document, used engine.Used) (engine.Verdict, []report.Call) {
	o := c.api.options
	request := engine.Request{Object: d.Workload, Operation: o.Operation, Strict: c.Strict, User: o.User, Groups: o.Groups, Namespace: o.Namespace,
		DryRun: o.DryRun, New: o.Operation == admissionv1.Create, Used: used}
	switch old := d.File().Old; {
	case len(old) > 0:
		request.Operation, request.Old, request.New = admissionv1.Update, old, false
	case !request.New && len(o.Old) > 0:
		request.Old = o.Old
	case !request.New:
		request.Old = d.Workload
	}
	return c.ask(ctx, request)
}

// workload notes the verdict of a pod's workload. What is refused creates no pod.
func (r *reviewed) workload(d requests.Document, v engine.Verdict, calls []report.Call) {
	r.warn(slices.DeleteFunc(v.Warnings, func(text string) bool { // what usher says of its pods is in the report of these
		return slices.ContainsFunc(calls, func(c report.Call) bool { return slices.Contains(c.Warnings, text) })
	}), requests.Document{})
	for _, what := range v.Unjudged {
		r.notJudged(what)
	}
	r.Plugins = append(r.Plugins, refusing(v)...)
	r.refusedBy(v, objectOf(d.Workload).GroupVersionKind())
}

// warn notes the warnings of the API server, but for those that the calls have. Unknown fields of a pod are those of its workload.
func (r *reviewed) warn(warnings []string, d requests.Document) {
	for _, text := range warnings {
		switch {
		case strings.HasPrefix(text, "unknown field "):
			if d.Of == "" && !slices.Contains(r.Unknown, text) {
				r.Unknown = append(r.Unknown, text)
			}
		case slices.ContainsFunc(r.Calls, func(c report.Call) bool { return slices.Contains(c.Warnings, text) }), slices.Contains(r.Warnings, text):
		default:
			r.Warnings = append(r.Warnings, text)
		}
	}
}
