package probe

import (
	"net/http"
	"slices"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// answers checks that each sample is answered at all.
func answers(r *run) {
	if len(r.hook.Samples) == 0 {
		r.notJudged("%s", unanswered(r.hook))
	}
	for _, s := range r.hook.Samples {
		r.decide(s)
	}
}

// decide sends a sample, and notes the decision, or fails if there is none.
func (r *run) decide(s Sample) *Answer {
	a, x := r.client.review(r, s.Review)
	var body map[string]any
	switch {
	case x.unsent():
	case a != nil && a.crash():
		r.fail(x, "%s is %s: the handler fails", s.Source, a.verdict())
	case a != nil:
		r.result.Decisions = append(r.result.Decisions, s.Source+" is "+a.decision())
	case x.Err != nil || x.Code != http.StatusOK:
		r.fail(x, "%s is not answered: %s", s.Source, x.Outcome())
	case utiljson.Unmarshal(x.Answer, &body) != nil:
		r.fail(x, "the answer to %s is no JSON object: %q", s.Source, short(string(x.Answer)))
	default:
		r.fail(x, "the answer to %s has no response that can be read: %q", s.Source, short(string(x.Answer)))
	}
	return a
}

// old is the version whose answers the API server hardly verifies.
const old = "admission.k8s.io/v1beta1"

func uid(r *run) {
	for _, a := range r.answered() {
		if !a.echoes() {
			r.fail(a.Exchange, "response.uid is %q, and request.uid is %q", a.Review.Response.UID, text(a.asked(), "uid"))
			return
		}
	}
}

func version(r *run) {
	for _, a := range r.answered() {
		if a.Review.Kind != "AdmissionReview" || a.Review.APIVersion != "admission.k8s.io/v1" {
			r.fail(a.Exchange, "the answer has apiVersion %q and kind %q; want those of the review, admission.k8s.io/v1 and AdmissionReview",
				a.Review.APIVersion, a.Review.Kind)
			return
		}
	}
}

func v1beta1(r *run) {
	if !slices.Contains(r.hook.Versions, "v1beta1") {
		r.skip("it is not registered for v1beta1")
		return
	}
	review := r.sample.Review.with(func(map[string]any) {})
	review["apiVersion"] = old
	a, x := r.client.review(r, review)
	switch {
	case a == nil:
		r.fail(x, "it is registered for v1beta1, and does not answer it: %s", x.Outcome())
	case a.Review.APIVersion != old && a.Review.APIVersion != "": // which the API server takes for its own
		r.fail(x, "a review of v1beta1 is answered with apiVersion %q", a.Review.APIVersion)
	case !a.same(r.was):
		r.fail(x, "at first it is %s, and by v1beta1 %s", r.was.verdict(), a.verdict())
	}
}

func refusal(r *run) {
	seen := false
	for _, a := range r.answered() {
		response := a.Review.Response
		if response.Allowed {
			continue
		}
		seen = true
		switch status := response.Result; {
		case status == nil || status.Message == "":
			r.fail(a.Exchange, "the refusal has no message: set response.status.message")
		case status.Code != 0 && (status.Code < 400 || status.Code > 499):
			r.fail(a.Exchange, "the refusal has status.code %d: that of a request has 400 to 499", status.Code)
		}
	}
	switch {
	case seen:
	case r.hook.Mutates:
		r.skip("it refuses none of the samples, as a mutating webhook may")
	default:
		r.notJudged("none of the samples is refused: pass one that should be with --sample FILE")
	}
}

func registration(r *run) {
	switch h := r.hook; {
	case h.SideEffects == "":
		r.skip("no configuration is known")
	case h.SideEffects != "None" && h.SideEffects != "NoneOnDryRun":
		r.fail(nil, "sideEffects is %s: the API server refuses dry runs that it is called for", h.SideEffects)
	case h.Timeout > 10*time.Second:
		r.fail(nil, "timeoutSeconds is %d: while it does not answer, each request waits so long, and one of kubectl ends after 34 s",
			int(h.Timeout.Seconds()))
	}
}

// answered returns the answers to the samples that are there.
func (r *run) answered() (all []*Answer) {
	return slices.DeleteFunc(slices.Clone(r.plain), func(a *Answer) bool { return a == nil })
}
