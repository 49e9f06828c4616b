// Package probe tests an admission webhook from outside, as the API server calls it, and as others could: `usherctl probe`.
package probe

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hook is a webhook that is probed.
type Hook struct {
	Name          string // of the webhook in its configuration; the URL if there is none
	Configuration string // kind and name; empty if only a URL is known
	Mutates       bool
	URL           string         // where requests are sent
	ServerName    string         // the name in its certificate
	Roots         *x509.CertPool // nil: those of the system
	Timeout       time.Duration  // as registered
	FailurePolicy string         // Fail or Ignore; empty if it is not known
	SideEffects   string         // empty if it is not known
	Versions      []string       // admissionReviewVersions
	OnlyDryRuns   bool           // all requests are
	unregistered  bool           // no configuration is known
	Samples       []Sample       // requests for which it is called, the first is the most usual one
}

// Sample is an object for which the webhook is called.
type Sample struct {
	Source string // such as "a Pod"
	Review Review // as the API server sends it
	// Judge returns the object that the API server stores if the webhook leaves the given one, with what its plug-ins add, or why it refuses it.
	// Nil: it is not known.
	Judge func(ctx context.Context, object json.RawMessage) (stored json.RawMessage, refused, unknown string)
}

// Failure is a fault of a webhook, with the request that shows it.
type Failure struct {
	Text     string
	Exchange *Exchange // nil: no single request shows it
}

// Result is the result of one test of one webhook.
type Result struct {
	Test      Test
	Hook      *Hook
	Failures  []Failure
	NotJudged string // why the test says nothing
	Skipped   string // why the test is not for such a webhook
}

// run is one test of one webhook while it runs.
type run struct {
	context.Context
	hook   *Hook
	client *client
	plain  []*Answer // the answers to the samples, as at first; nil if there was none
	sample Sample    // the first that was allowed, or else answered
	was    *Answer   // its answer
	// unsteady: the same review has answers with other patches.
	unsteady bool
	result   Result
}

func (r *run) fail(x *Exchange, format string, args ...any) {
	r.result.Failures = append(r.result.Failures, Failure{fmt.Sprintf(format, args...), x})
}

func (r *run) notJudged(format string, args ...any) {
	r.result.NotJudged = fmt.Sprintf(format, args...)
}

func (r *run) skip(why string) { r.result.Skipped = why }

// Answer is a response that could be read. What an API server asks of it besides is the matter of tests.
type Answer struct {
	Exchange *Exchange
	Review   admissionv1.AdmissionReview
}

// same reports whether two answers to requests for the same object decide the same: the operations of their patches may have another order.
func (a *Answer) same(b *Answer) bool {
	if a.Review.Response.Allowed != b.Review.Response.Allowed || bytes.Equal(a.Review.Response.Patch, b.Review.Response.Patch) {
		return a.Review.Response.Allowed == b.Review.Response.Allowed
	}
	one, err1 := a.applied()
	other, err2 := b.applied()
	return err1 == nil && err2 == nil && reflect.DeepEqual(one, other)
}

// applied returns the object with the patch of the answer.
func (a *Answer) applied() (map[string]any, error) {
	asked, err := ReadReview(a.Exchange.Body)
	if err != nil {
		return nil, err
	}
	return apply(asked, a.Review.Response.Patch)
}

// verdict describes an answer in a few words.
func (a *Answer) verdict() string {
	r := a.Review.Response
	switch {
	case !r.Allowed:
		return fmt.Sprintf("refused, %q", message(r.Result))
	case len(r.Patch) > 0:
		return fmt.Sprintf("allowed with the patch %s", short(string(r.Patch)))
	}
	return "allowed without a patch"
}

func message(s *metav1.Status) string {
	if s == nil {
		return ""
	}
	return short(s.Message)
}

// short returns the beginning of a text of others.
func short(text string) string {
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return text
}

// Run runs the tests of a webhook and hands over each result. No more requests are sent than bound allows, and none after the context is done.
func Run(ctx context.Context, hook *Hook, tests []Test, bound Bound, report func(Result)) {
	c := newClient(hook, bound)
	defer c.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, bound.Time)
	defer cancel()
	var plain []*Answer
	for _, s := range hook.Samples {
		answer, _ := c.review(ctx, s.Review)
		plain = append(plain, answer)
	}
	unsteady := false
	for i, s := range hook.Samples {
		if again, _ := c.review(ctx, s.Review); again != nil && plain[i] != nil && !again.same(plain[i]) {
			unsteady = true
		}
	}
	slow := startSlow(ctx, c, bound.Patience)
	left := 0
	for _, t := range tests {
		r := &run{Context: ctx, hook: hook, client: c, plain: plain, unsteady: unsteady, result: Result{Test: t, Hook: hook}}
		r.choose()
		switch {
		case t.slow:
			slow(r)
		case !t.first && r.was == nil:
			left++
			continue
		default:
			t.run(r)
		}
		if ctx.Err() != nil {
			r.result.Failures = nil // what was cut short is no fault of the webhook
		}
		if c.spent() || ctx.Err() != nil {
			r.notJudged("the bound of %d requests in %s is reached", bound.Requests, bound.Time)
		}
		report(r.result)
	}
	if left > 0 {
		report(Result{Test: Test{Name: "others"}, Hook: hook, NotJudged: fmt.Sprintf("%d tests: %s", left, unanswered(hook))})
	}
}

// choose chooses the sample that most tests send.
func (r *run) choose() {
	for _, allowed := range []bool{true, false} {
		for i, a := range r.plain {
			if r.was == nil && a != nil && a.Review.Response.Allowed == allowed {
				r.sample, r.was = r.hook.Samples[i], a
			}
		}
	}
}

func unanswered(h *Hook) string {
	if len(h.Samples) == 0 {
		return "no sample is known for which it is called: pass one with --sample FILE"
	}
	return "it does not answer " + h.Samples[0].Source + ": see the test answer"
}

// Bound bounds what is sent to one webhook.
type Bound struct {
	Requests int
	Time     time.Duration
	Patience time.Duration // until the server must end a connection on which nothing comes
}
