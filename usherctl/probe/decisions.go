package probe

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// generateName checks the decision about an object whose name is to be made.
func generateName(r *run) {
	if text(r.sample.Review.request(), "operation") != "CREATE" {
		r.skip("it is not called for creations")
		return
	}
	if !r.hook.Mutates {
		r.skip("the API server has made the name when it asks validating webhooks")
		return
	}
	review := r.sample.Review.withObject(func(object map[string]any) {
		metadata := at(object, "metadata")
		delete(metadata, "name")
		metadata["generateName"] = "probe-"
	}).with(func(q map[string]any) { delete(q, "name") })
	a, x := r.client.review(r, review)
	switch {
	case x.unsent():
	case a == nil:
		r.fail(x, "an object with generateName is not answered: %s", x.Outcome())
	case a.Review.Response.Allowed != r.was.Review.Response.Allowed:
		r.fail(x, "with a name it is %s, and with generateName %s", r.was.verdict(), a.verdict())
	}
}

// updates sends the updates of the samples.
func updates(r *run) {
	if len(r.hook.Updates) == 0 {
		r.skip("it is not called for updates of the samples")
	}
	for _, s := range r.hook.Updates {
		a, x := r.client.review(r, s.Review)
		switch {
		case x.unsent():
		case a == nil:
			r.fail(x, "%s is not answered: %s", s.Source, x.Outcome())
		case a.crash():
			r.fail(x, "%s is %s: the handler fails", s.Source, a.verdict())
		default:
			r.result.Decisions = append(r.result.Decisions, s.Source+" is "+a.decision())
			if _, err := apply(s.Review, a.Review.Response.Patch); err != nil {
				r.fail(x, "the patch for %s does not apply: %v", s.Source, err)
			}
		}
	}
}

func dryRun(r *run) {
	if r.hook.OnlyDryRuns {
		r.skip("all requests are dry runs")
		return
	}
	for i, s := range r.hook.Samples {
		if r.plain[i] != nil {
			a, x := r.client.review(r, s.Review.with(func(q map[string]any) { q["dryRun"] = true }))
			r.compare("as a dry run", r.plain[i], a, x)
		}
	}
}

// repeated sends the very bytes again, and the same object in other requests.
func repeated(r *run) {
	x := r.client.send(r, &Exchange{Body: r.was.Exchange.Body})
	r.compare("when it is sent again", r.was, x.read(), x)
	for range 4 {
		r.sameFor("in another request", r.sample.Review)
	}
}

func alive(r *run) { r.sameFor("after all tests", r.sample.Review) }

// sameFor fails, once, unless a review has the answer of the first sample.
func (r *run) sameFor(when string, review Review) {
	a, x := r.client.review(r, review)
	r.compare(when, r.was, a, x)
}

// compare fails, once, unless an answer is as it was.
func (r *run) compare(when string, was, a *Answer, x *Exchange) {
	switch {
	case len(r.result.Failures) > 0, x.unsent():
	case a == nil:
		r.fail(x, "%s it is not answered: %s", when, x.Outcome())
	case !r.same(a, was):
		r.fail(x, "at first it was %s, and %s it is %s", was.verdict(), when, a.verdict())
	}
}

// same reports whether two answers decide the same. Of a webhook whose patches change from answer to answer, which the test repeated reports,
// the others compare only the verdicts.
func (r *run) same(a, b *Answer) bool {
	return a.same(b) || r.unsteady && r.result.Test.Name != "repeated" && a.Review.Response.Allowed == b.Review.Response.Allowed
}

// together is the number of requests that are sent at once.
const together = 64

func sideBySide(r *run) {
	answers := make([]*Answer, together)
	exchanges := make([]*Exchange, together)
	var group sync.WaitGroup
	for i := range together {
		group.Go(func() { answers[i], exchanges[i] = r.client.review(r, r.sample.Review) })
	}
	group.Wait()
	failed, other := 0, 0
	var first *Exchange
	for i, a := range answers {
		switch {
		case exchanges[i].unsent():
			return
		case a == nil:
			failed++
		case !r.same(a, r.was):
			other++
		default:
			continue
		}
		if first == nil {
			first = exchanges[i]
		}
	}
	if first != nil {
		r.fail(first, "of %d requests at once, %d failed and %d had another answer, such as: %s", together, failed, other, first.Outcome())
	}
}

func inTime(r *run) {
	if r.hook.unregistered {
		r.skip("no configuration is known")
		return
	}
	answers := r.answered()
	for range 3 {
		if a, _ := r.client.review(r, r.sample.Review); a != nil {
			answers = append(answers, a)
		}
	}
	slices.SortFunc(answers, func(a, b *Answer) int { return cmp.Compare(a.Exchange.Took, b.Exchange.Took) })
	fastest, slowest := answers[0].Exchange, answers[len(answers)-1].Exchange
	fail := func(which string, x *Exchange) {
		r.fail(x, "the %s of %d answers took %s; timeoutSeconds is %d", which, len(answers), x.Took.Round(time.Millisecond), int(r.hook.Timeout.Seconds()))
	}
	switch {
	case slowest.Took > r.hook.Timeout:
		fail("slowest", slowest)
	case fastest.Took > r.hook.Timeout/4: // what the webhook needs; the machine may have been busy with others
		fail("fastest", fastest)
	}
}
