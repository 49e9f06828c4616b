package doctor

import (
	"context"
	"crypto/x509"
	"strings"

	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/webhookmatch"
)

// Calls knows what becomes of a call, as far as it can be told without one.
type Calls struct {
	cluster *connectivity.Cluster // nil: it is not known what can be reached
	usher   Usher
	needed  []webhooks.Hook
}

// Calls reads what the webhooks of a cluster call. roots are the CAs of its API server.
func (e *Examiner) Calls(ctx context.Context, roots *x509.CertPool, usher Usher) Calls {
	c := Calls{usher: usher}
	if usher.Unknown == nil {
		c.needed = usher.neededBy(e.hooks)
	}
	if !e.source.Live() {
		return c
	}
	c.cluster = &connectivity.Cluster{Source: e.source, Inside: connectivity.Inside(ctx, e.source, roots)}
	c.cluster.Read(ctx, calledBy(e.hooks))
	return c
}

// Judge returns the report of Examine, and what is known of the request beyond the filters: the calls that fail, the webhooks of usher
// that are not registered, or not as they should be, and what admission policies say. What is not known is not judged.
func (e *Examiner) Judge(ctx context.Context, d requests.Document, o requests.Options, calls Calls) report.Report {
	request, err := e.request(ctx, d, o)
	if err != nil {
		return requests.NotSent(d, err)
	}
	j := e.judgeRequest(ctx, d, request, nobody)
	result := e.examine(d, j)
	if result.Verdict == report.Failed {
		result.Verdict = report.Rejected
	}
	missing := canary{request: request, judged: j}.unregistered(ctx, e, calls.needed)
	for i := range missing {
		missing[i].Fix = calls.usher.restoring()
	}
	for i, h := range e.hooks {
		worse := calls.judge(h, &result.Webhooks[i], func() bool { return e.needs(ctx, j, calls.needed, h.Name) })
		if result.Verdict == report.Passed || result.Verdict == report.Failed && worse == report.Rejected {
			result.Verdict = worse
		}
	}
	if result.Webhooks = append(result.Webhooks, missing...); len(missing) > 0 && result.Verdict == report.Passed {
		result.Verdict = report.Failed
	}
	if e.addRefusal(j, &result) && (result.Verdict == report.Passed || result.Verdict == report.Failed) {
		result.Verdict = report.Rejected
	}
	if result.Verdict == report.Passed && len(result.Unjudged) > 0 {
		result.Verdict = report.Unanswered
	}
	if err := d.File().OldErr; err != nil {
		if result.Unjudged = append(result.Unjudged, err.Error()); result.Verdict == report.Passed || result.Verdict == report.Unanswered {
			result.Verdict = report.NotJudged
		}
	}
	return result
}

// fault is why a webhook is not called as it should be, or to no avail, with what follows for the request and the command that ends it.
type fault struct {
	why, fix string
	verdict  report.Verdict
}

// judge adds to the line of a report what becomes of the call, and returns the verdict that follows.
func (c Calls) judge(h entry, w *report.Webhook, needed func() bool) report.Verdict {
	found := fault{}
	switch {
	case w.Called:
		if found = c.misdirected(h); found.why == "" {
			found = c.unreachable(h)
		}
	case h.ushers() && (w.Filter == webhookmatch.Rules || w.Filter == webhookmatch.Scope) && needed():
		found = fault{"usher's policy needs it to be called", c.usher.restoring(), report.Failed}
	}
	if found.why == "" {
		return report.Passed
	}
	if w.Why != "" {
		w.Why += "; "
	}
	w.Why, w.Fix = w.Why+found.why, found.fix
	if found.verdict == report.Rejected && !h.fails() {
		w.Why += ". With failurePolicy Ignore it is as if the webhook did not exist"
		return report.Failed
	}
	return found.verdict
}

// misdirected returns what is wrong with the path that a webhook of usher calls.
func (c Calls) misdirected(h entry) fault {
	if !h.ushers() || len(c.usher.Paths) == 0 {
		return fault{}
	}
	path, served := h.ushersPath(c.usher.Paths)
	switch expected := webhooks.PathOf(h.Name); {
	case !served:
		return fault{"but usher does not serve the path " + path + ": the call ends with HTTP 404", c.usher.restoring(), report.Rejected}
	case path != expected:
		return fault{"but at " + path + ", which is the path of another webhook: the steps of " + expected + " do not run", c.usher.restoring(),
			report.Failed}
	}
	return fault{}
}

// unreachable returns why the call of a webhook fails, as far as that is known. `usherctl doctor` has the command that ends it.
func (c Calls) unreachable(h entry) fault {
	if c.cluster == nil {
		return fault{}
	}
	called := h.called()
	called.Consequence = "" // the line of the webhook has it
	for _, p := range c.cluster.Problems(called) {
		if p.Severity == report.Error && p.ID != "ca-bundle-private-key" {
			why := strings.TrimSuffix(strings.Join(strings.Fields(p.Text), " "), ".")
			return fault{"and the call fails: " + why + " (usherctl doctor: " + p.ID + ")", "", report.Rejected}
		}
	}
	return fault{}
}
