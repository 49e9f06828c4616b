// Package probe tests an admission webhook from outside, as the API server calls it, and as others could: `usherctl probe`.
package probe

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
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
	slowTested    bool           // another webhook at its address had the test slow-clients
	Samples       []Sample       // requests for which it is called, the first is the most usual one
	Updates       []Sample       // of the same objects, for which it is called
	Progress      func(string)   // is called before each test; may be nil
}

// Sample is an object for which the webhook is called.
type Sample struct {
	Source string // such as "a Pod"
	Review Review // as the API server sends it
	// Judge returns the object that the API server stores if the webhook leaves the given one, with what its plug-ins add, or why it refuses it.
	Judge func(ctx context.Context, object map[string]any) (stored map[string]any, refused, unknown string)
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
	Decisions []string // what the webhook decided about each sample
	NotJudged string   // why the test says nothing
	Skipped   string   // why the test is not for such a webhook
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

// asked is the request that was answered.
func (a *Answer) asked() map[string]any {
	review, _ := ReadReview(a.Exchange.Body)
	return review.request()
}

// echoes reports whether the uid is that of the request.
func (a *Answer) echoes() bool { return text(a.asked(), "uid") == string(a.Review.Response.UID) }

// decided returns the verdict and the patch of an answer without the object's name, so that answers about different names compare.
func (a *Answer) decided() string {
	return fmt.Sprint(a.Review.Response.Allowed, strings.ReplaceAll(string(a.Review.Response.Patch), text(a.asked(), "name"), ""))
}

// applied returns the object with the patch of the answer.
func (a *Answer) applied() (map[string]any, error) {
	asked, err := ReadReview(a.Exchange.Body)
	if err != nil {
		return nil, err
	}
	return apply(asked, a.Review.Response.Patch)
}

// crash reports whether a refusal says that the handler has failed: frameworks recover panics, and answer so.
func (a *Answer) crash() bool {
	r := a.Review.Response
	return !r.Allowed && r.Result != nil &&
		(r.Result.Code >= 500 || strings.Contains(r.Result.Message, "panic:") || strings.Contains(r.Result.Message, "runtime error"))
}

// verdict describes an answer in a few words.
func (a *Answer) verdict() string {
	r := a.Review.Response
	switch {
	case !r.Allowed:
		if r.Result != nil && r.Result.Code != 0 {
			return fmt.Sprintf("refused, %d %q", r.Result.Code, message(r.Result))
		}
		return fmt.Sprintf("refused, %q", message(r.Result))
	case len(r.Patch) > 0:
		return fmt.Sprintf("allowed with the patch %s", short(string(r.Patch)))
	}
	return "allowed without a patch"
}

// decision describes what the API server takes from an answer.
func (a *Answer) decision() string {
	var operations []any
	switch r := a.Review.Response; {
	case r.Allowed && len(r.Patch) > 0 && json.Unmarshal(r.Patch, &operations) == nil:
		return fmt.Sprintf("changed, operations: %d", len(operations))
	case r.Allowed:
		return "allowed"
	}
	return a.verdict()
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
	if err := hook.reach(ctx); err != nil {
		report(Result{Test: Test{Name: "all"}, Hook: hook, NotJudged: fmt.Sprintf("nothing listens there: %v", err)})
		return
	}
	plain, unsteady := c.plain(ctx)
	slow := func(r *run) { r.skip("it was tested with another webhook at this address") }
	chosen := !hook.slowTested && slices.ContainsFunc(tests, func(t Test) bool { return t.slow })
	if chosen && slices.ContainsFunc(plain, func(a *Answer) bool { return a != nil }) {
		slow = startSlow(ctx, c, bound.Patience)
	}
	left := 0
	for i, t := range tests {
		if hook.Progress != nil {
			hook.Progress(fmt.Sprintf("test %d of %d: %s", i+1, len(tests), t.Name))
		}
		r := &run{Context: ctx, hook: hook, client: c, plain: plain, unsteady: unsteady, result: Result{Test: t, Hook: hook}}
		r.choose()
		c.crashed.Store(nil)
		switch {
		case !t.first && r.was == nil:
			left++
			continue
		case t.ofV1 && r.sample.Review["apiVersion"] == old:
			r.skip("it is registered for v1beta1 alone, in which the API server does not verify this")
		case t.ofPatches && !r.changes():
		case t.slow:
			slow(r)
		default:
			t.run(r)
		}
		if x := c.crashed.Load(); x != nil && len(r.result.Failures) == 0 {
			r.fail(x, "a request that it sends is %s: the handler fails", x.read().verdict())
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

// reach returns an error if nothing listens at the address of the webhook.
func (h *Hook) reach(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", h.host())
	if err != nil {
		return err
	}
	return conn.Close()
}

// plain returns the answers to the samples, nil for those that have none or on which the handler fails, and whether they change if they are
// asked for again.
func (c *client) plain(ctx context.Context) (all []*Answer, unsteady bool) {
	for _, s := range c.hook.Samples {
		answer, _ := c.review(ctx, s.Review)
		if answer != nil && answer.crash() {
			answer = nil // see the test answer
		}
		all = append(all, answer)
	}
	for i, s := range c.hook.Samples {
		if again, _ := c.review(ctx, s.Review); again != nil && all[i] != nil && !again.same(all[i]) {
			unsteady = true
		}
	}
	return all, unsteady
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
	switch {
	case len(h.Samples) > 0:
	case len(h.Versions) == 0 && !h.unregistered:
		return "its configuration has no admissionReviewVersions, without which admissionregistration.k8s.io/v1 calls it for nothing"
	default:
		return "no sample is known for which it is called: pass one with --sample FILE"
	}
	return "it does not decide upon " + h.Samples[0].Source + ": see the test answer"
}

// Bound bounds what is sent to one webhook.
type Bound struct {
	Requests int
	Time     time.Duration
	Patience time.Duration // until the server must end a connection on which nothing comes
}
