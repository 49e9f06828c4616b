package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/webhookmatch"
)

// unexplained is the filter of a webhook that the API server's code does not call, where no filter is known to keep the request away.
const unexplained = "unexplained"

// judging is the API server's code over the state of a cluster.
type judging struct {
	*engine.Engine
	*state
	spaces  map[string]bool // as in the examiner
	wanted  map[schema.GroupVersionKind]bool
	err     error // why there is none
	unasked error // why the authorizer has not answered
}

// judging returns the API server's code over the cluster, with the Namespace and the kind of a request.
func (e *Examiner) judging(ctx context.Context, r webhookmatch.Request) *judging {
	kind := storedKind(r)
	if e.judge != nil && (r.Namespace == "" || e.judge.spaces[r.Namespace]) && e.judge.wanted[kind] {
		return e.judge
	}
	if e.wanted[kind] = true; r.Namespace != "" {
		e.spaces[r.Namespace] = true
	}
	e.judge = &judging{state: e.readState(ctx), spaces: maps.Clone(e.spaces), wanted: maps.Clone(e.wanted)}
	cluster := engine.Cluster{Assumed: map[string]map[string]string{}, Authorizer: authorizer.AuthorizerFunc(e.answer)}
	for name := range e.spaces {
		if e.namespace(ctx, name).Err != nil {
			cluster.Assumed[name] = nil
			continue
		}
		e.judge.add(namespaceKind, e.whole[name])
	}
	e.judge.assume(e.source.Live(), e.pods)
	if e.beside != nil {
		e.beside(e.judge.state)
	}
	cluster.Objects = e.judge.objects
	e.judge.Engine, e.judge.err = engine.New(ctx, cluster)
	return e.judge
}

// answer answers policies and conditions as the cluster's authorizer does.
func (e *Examiner) answer(ctx context.Context, what authorizer.Attributes) (authorizer.Decision, string, error) {
	allowed, reason, err := false, "", webhookmatch.ErrUnknown
	if e.source.Live() {
		allowed, reason, err = e.authorize(ctx, what)
	}
	if allowed {
		return authorizer.DecisionAllow, reason, err
	}
	e.judge.lock.Lock()
	defer e.judge.lock.Unlock()
	e.judge.unasked = cmp.Or(e.judge.unasked, err)
	return authorizer.DecisionNoOpinion, reason, err
}

// decision is the API server's verdict of a request, and what it means for each webhook.
type decision struct {
	engine.Verdict
	request  webhookmatch.Request
	verdicts []webhookmatch.Verdict
	// doubt says why the verdict may be another one; empty if it stands.
	doubt string
	state *state
	seen  map[bool]*admissionv1.AdmissionRequest // what mutating webhooks get, and what validating ones do; nil: it does not get that far
}

// judgeRequest returns the verdict of the request that a document stands for. answered reports whether the answer of a webhook is known to be in the
// object.
func (e *Examiner) judgeRequest(ctx context.Context, d requests.Document, r webhookmatch.Request, answered func(engine.Registered) bool) decision {
	by := e.judging(ctx, r)
	j := decision{request: r, state: by.state, seen: map[bool]*admissionv1.AdmissionRequest{}}
	if by.err != nil {
		for range e.hooks {
			j.verdicts = append(j.verdicts, webhookmatch.Verdict{Filter: webhookmatch.Unknown, Why: by.err.Error()})
		}
		j.doubt = by.err.Error()
		return j
	}
	by.unasked = nil
	j.Verdict = by.Judge(ctx, engine.Request{Object: r.Object.Raw, Kind: storedKind(r), Name: r.Name, Namespace: r.Namespace, SubResource: r.SubResource,
		Operation: r.Operation, Old: storedObject(d, r), User: r.UserInfo.Username, Groups: r.UserInfo.Groups, DryRun: r.DryRun != nil && *r.DryRun})
	for _, call := range j.Calls {
		var review admissionv1.AdmissionReview
		if call.Configuration == probe && json.Unmarshal(call.Review, &review) == nil {
			j.seen[call.Mutates] = review.Request
		}
	}
	connects := r.Operation == admissionv1.Connect && j.seen[false] != nil // what it is connected to is not in this process
	if j.By == "" && (connects || j.Code == http.StatusConflict) {         // or the object exists
		j.Refusal = nil
	}
	j.doubt = e.doubt(d, j, by, answered)
	j.verdicts = e.matcher.Of(ctx, j.seenBy(true), j.seenBy(false), hooksOf(e.hooks))
	for i, h := range e.hooks {
		j.verdicts[i] = j.verdict(h, j.verdicts[i])
	}
	return j
}

// doubt returns why the verdict of a request may be another one.
func (e *Examiner) doubt(d requests.Document, j decision, by *judging, answered func(engine.Registered) bool) string {
	if by.unasked != nil {
		return by.unasked.Error()
	}
	switch {
	case j.Refusal == nil:
		return ""
	case j.By == "ResourceQuota" && len(d.File().Old) > 0 && d.Of != "" && !d.File().KeepsTemplate():
		return "the quota may have room when the pods that the update replaces are gone"
	case j.Refusal.Code == http.StatusNotFound && j.By == "" && len(j.Calls) == 0:
		return "the version of Kubernetes whose code judges here does not serve it"
	}
	for name, why := range by.unknown {
		if strings.Contains(j.Refusal.Message, "'"+name+"'") {
			return why
		}
	}
	for _, call := range j.Calls {
		if call.Mutates && call.Configuration != probe && !answered(call.Registered) {
			return "the webhook " + call.Name + " may change it before"
		}
	}
	return ""
}

// seenBy returns the request as webhooks get it, or as it came if none does.
func (j decision) seenBy(mutating bool) webhookmatch.Request {
	r := j.request
	if seen := j.seen[mutating]; seen != nil && r.Kind == seen.Kind {
		copied := *seen
		copied.UserInfo = r.UserInfo
		r.AdmissionRequest = &copied
	}
	return r
}

// verdict returns whether a webhook is called, which the API server's code says, and if not, why, which is explained.
func (j decision) verdict(h entry, explained webhookmatch.Verdict) webhookmatch.Verdict {
	converts := explained.Converts && !j.state.custom[storedKind(j.request).GroupKind()]
	known := !differs(j.request, h) && (explained.Filter != webhookmatch.Unknown || converts)
	i := slices.IndexFunc(j.Calls, func(c engine.Call) bool {
		return c.Configuration == h.configuration.Name && c.Name == h.Name && c.Mutates == h.mutating()
	})
	switch {
	case !known:
		return explained
	case i >= 0:
		return webhookmatch.Verdict{Called: true, As: equivalent(j.Calls[i])}
	case !explained.Called && explained.Filter != webhookmatch.Unknown && !j.unsettled(h, explained.Filter):
		return explained
	case j.Refusal != nil && j.doubt != "":
		return webhookmatch.Verdict{Filter: webhookmatch.Unknown, Why: fmt.Sprintf("called, unless the API server refuses the request before: %s; %s",
			j.Refusal.Message, j.doubt)}
	case j.Refusal != nil:
		return webhookmatch.Verdict{Filter: webhookmatch.Refused, Why: "the API server refuses the request before: " + j.Refusal.Message}
	}
	return webhookmatch.Verdict{Filter: unexplained, Why: "the API server's code does not call it, and which filter keeps the request away is not known"}
}

// unsettled reports whether what keeps a request from a webhook depends on an object that is not known: the API server refuses the request before
// it completes the object, of which an update of a subresource keeps a part of the stored one.
func (j decision) unsettled(h entry, filter string) bool {
	ofObject := filter == webhookmatch.ObjectSelector || filter == webhookmatch.MatchConditions || filter == webhookmatch.Refused
	return ofObject && !h.mutating() && j.request.Operation == admissionv1.Update && j.request.SubResource != "" && j.Refusal != nil &&
		j.seen[false] == nil
}

// equivalent returns the resource as which a webhook gets an object, if that is another one than that of the request.
func equivalent(c engine.Call) (as schema.GroupVersionResource) {
	var review admissionv1.AdmissionReview
	if json.Unmarshal(c.Review, &review) == nil && review.Request != nil && review.Request.RequestResource != nil &&
		*review.Request.RequestResource != review.Request.Resource {
		as = schema.GroupVersionResource(review.Request.Resource)
	}
	return as
}

// differs reports whether a cluster decides about a webhook otherwise than the version of Kubernetes in this process: it is older, a file has the
// webhook, or the request has been converted for another one.
func differs(r webhookmatch.Request, h entry) bool {
	return r.SendsVirtualResources || webhookmatch.OnDisk(h.configuration.Name) && r.Kind.Group == registrationGroup ||
		r.RequestKind != nil && *r.RequestKind != r.Kind
}

// storedKind returns the kind of the object that a request is about, also of a subresource.
func storedKind(r webhookmatch.Request) schema.GroupVersionKind {
	if kind := webhookmatch.KindOf(r.Resource.Group, r.Resource.Resource); kind != "" && r.SubResource != "" {
		return schema.GroupVersionKind{Group: r.Resource.Group, Version: r.Resource.Version, Kind: kind}
	}
	return schema.GroupVersionKind(r.Kind)
}

// storedObject returns the stored object of a request that names one. If a review of a subresource does not have it, it is any.
func storedObject(d requests.Document, r webhookmatch.Request) []byte {
	kind := storedKind(r)
	switch {
	case r.Bare:
		return d.JSON
	case r.SubResource == "" || len(r.OldObject.Raw) > 0 && kind == schema.GroupVersionKind(r.Kind):
		return r.OldObject.Raw
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q},
		"spec":{"nodeName":"a","containers":[{"name":"a","image":"a"}]}}`, apiVersion, name, r.Name, r.Namespace)
}
