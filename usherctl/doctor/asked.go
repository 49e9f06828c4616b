package doctor

import (
	"context"
	"regexp"
	"slices"

	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// Answer adds to the report of a review of a document, with the webhooks of the cluster, what the API server says of the object that usher makes of
// it, and which answers are not judged: those of usher's webhooks are the calls of the report.
func (c Calls) Answer(ctx context.Context, e *Examiner, d requests.Document, o requests.Options, result *report.Report) {
	j, err := e.afterUsher(ctx, d, o, result)
	if err != nil {
		return // the report says so
	}
	passes := result.Verdict == report.Allowed || result.Verdict == report.Skipped
	switch refuses := e.addRefusal(j, result); {
	case passes && refuses:
		result.Verdict = report.Denied
	case passes && (j.doubt != "" || len(j.state.unread) > 0):
		result.Verdict = report.NotJudged
	}
}

// AddCalled adds to the report of a review of a document which webhooks of the cluster are called, with what usher makes of the object.
func (e *Examiner) AddCalled(ctx context.Context, d requests.Document, o requests.Options, result *report.Report) {
	_, _ = e.afterUsher(ctx, d, o, result) // the report says why not
}

// afterUsher judges a request with what usher makes of its object, and adds to the report of its review who is called.
func (e *Examiner) afterUsher(ctx context.Context, d requests.Document, o requests.Options, result *report.Report) (j decision, err error) {
	request, err := e.request(ctx, d, o)
	if err != nil {
		return j, err
	}
	if len(result.After) > 0 && len(request.Object.Raw) > 0 {
		request.Object.Raw = result.After
	}
	j = e.judgeRequest(ctx, d, request, func(w engine.Registered) bool { return e.hasAnswered(w, result) })
	result.Webhooks = e.examine(d, j).Webhooks
	return j, nil
}

// hasAnswered reports whether a webhook is one of usher whose steps have run for a report.
func (e *Examiner) hasAnswered(w engine.Registered, result *report.Report) bool {
	return slices.ContainsFunc(e.hooks, func(h entry) bool {
		return h.Name == w.Name && h.configuration.Name == w.Configuration && h.ushers()
	}) && slices.ContainsFunc(result.Calls, func(c report.Call) bool { return c.Path == webhooks.PathOf(w.Name) })
}

var (
	policyNamed = regexp.MustCompile(`(?i)policy '([^']+)'`)
	byPolicy    = []string{validatingPolicy, "MutatingAdmissionPolicy"}
	byWebhook   = []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}
)

// addRefusal adds to a report why the API server refuses the request, other than because of a webhook, and what is not judged. It reports whether
// the API server refuses it.
func (e *Examiner) addRefusal(j decision, result *report.Report) (refuses bool) {
	e.addUnanswered(result)
	result.Unjudged = append(result.Unjudged, j.state.unread...)
	some := func(all admissionPolicies) bool { return len(all.policies) > 0 }
	if err := j.request.InNamespace.Err; err != nil && slices.ContainsFunc(j.state.policies, some) {
		result.Unjudged = append(result.Unjudged, "which admission policies are for the Namespace "+j.request.Namespace+": "+err.Error())
	}
	switch {
	case j.Refusal == nil && j.doubt == "":
		return false
	case j.Refusal == nil:
		result.Unjudged = append(result.Unjudged, "what is asked of the authorizer: "+j.doubt)
		return false
	case j.doubt != "":
		result.Unjudged = append(result.Unjudged, "for the object as it was sent the API server says: "+j.Refusal.Message+"; "+j.doubt)
		return false
	case slices.Contains(byPolicy, j.By):
		result.Findings = append(result.Findings, j.policyRefuses())
	case !slices.Contains(byWebhook, j.By):
		result.Invalid = append(result.Invalid, j.Refusal.Message)
	}
	return true
}

// policyRefuses returns the finding for the refusal of an admission policy.
func (j decision) policyRefuses() report.Finding {
	p := admissionPolicy{kind: j.By}
	if named := policyNamed.FindStringSubmatch(j.Refusal.Message); named != nil {
		p.Metadata.Name = named[1]
	}
	return p.problem("policy-refuses", "%s.", j.Refusal.Message)
}

// addUnanswered adds to a report which webhooks are called whose answers are not judged.
func (e *Examiner) addUnanswered(result *report.Report) {
	var answering []string
	for i, w := range result.Webhooks {
		known := i < len(e.hooks) // others are missing
		if known && e.hasAnswered(engine.Registered{Configuration: e.hooks[i].configuration.Name, Name: w.Name}, result) {
			continue
		}
		if w.Called {
			answering = append(answering, w.Name)
		}
	}
	if len(answering) > 0 {
		result.Unjudged = append(result.Unjudged, "the answers of "+report.List(slices.Compact(answering))+": no review is sent")
	}
}
