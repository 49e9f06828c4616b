package probe

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
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
	review := r.sample.Review.without("name").with(func(q map[string]any) { delete(q, "name") })
	at(review.object(), "metadata")["generateName"] = "probe-"
	r.sameVerdict("with generateName in place of a name", review)
}

// sameVerdict fails unless another form of the object is allowed or refused as the sample was.
func (r *run) sameVerdict(how string, review Review) {
	if a, x := r.client.review(r, review); a == nil || a.Review.Response.Allowed != r.was.Review.Response.Allowed {
		r.compare(how, r.was, a, x)
	}
}

// updates sends the updates of the samples.
func updates(r *run) {
	if len(r.hook.Updates) == 0 {
		r.skip("it is not called for updates of the samples")
	}
	for _, s := range r.hook.Updates {
		if a := r.decide(s); a != nil {
			if _, err := a.applied(); err != nil {
				r.fail(a.Exchange, "the patch for %s does not apply: %v", s.Source, err)
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
	if r.unsteady && r.result.Test.Name != "repeated" {
		return a.Review.Response.Allowed == b.Review.Response.Allowed
	}
	return a.same(b) && a.echoes() == b.echoes()
}

// together is the number of requests that are sent at once; fresh begins names that were not sent before.
const together, fresh = 64, "probe-"

// asked is a request with the answer that it has alone.
type asked struct {
	review Review
	alone  *Answer
}

// mixed returns requests with different answers, as far as there are some: the samples, and under other names what they are, what they are
// without labels and annotations, and what the webhook has made of them.
func (r *run) mixed() []asked {
	all := []asked{{r.sample.Review, r.was}}
	for i, was := range r.plain[:min(6, len(r.plain))] {
		if was == nil {
			continue
		}
		s := r.hook.Samples[i]
		all = append(all, asked{s.Review, was})
		forms := []Review{s.Review, s.Review.without("labels", "annotations")}
		if object, err := was.applied(); err == nil && len(was.Review.Response.Patch) > 0 {
			forms = append(forms, s.Review.with(func(q map[string]any) { q["object"] = object }))
		}
		for _, form := range forms {
			form = form.named(freshName())
			if a, _ := r.client.review(r, form); a != nil {
				all = append(all, asked{form, a})
			}
		}
	}
	return all
}

func freshName() string { return fresh + string(uuid.NewUUID())[:8] }

// differing returns two requests that are decided upon differently, of those that may be a pair: best of all one allowed and one refused.
func differing(all []asked, may func(a, b Review) bool) (pair []asked) {
	for i, a := range all {
		for _, b := range all[:i] {
			refused := a.alone.Review.Response.Allowed != b.alone.Review.Response.Allowed
			if may(a.review, b.review) && (refused || pair == nil && a.alone.decided() != b.alone.decided()) {
				pair = []asked{a, b}
				if refused {
					return pair
				}
			}
		}
	}
	return pair
}

func sideBySide(r *run) {
	mix := r.mixed()
	r.atOnce(mix)
	if differing(mix, func(Review, Review) bool { return true }) == nil {
		r.notJudged("all requests have the same answer, so that of another one would not be seen: " +
			"pass an object that it refuses or changes with --sample FILE")
	}
	if pair := differing(mix, mayShareName); pair != nil {
		r.sameName(pair)
	}
}

// atOnce sends requests all at once, and fails unless each has the answer that it has alone.
func (r *run) atOnce(mix []asked) {
	answers, exchanges := make([]*Answer, together), make([]*Exchange, together)
	var group sync.WaitGroup
	for i := range together {
		group.Go(func() { answers[i], exchanges[i] = r.client.review(r, mix[i%len(mix)].review) })
	}
	group.Wait()
	failed, other, first := 0, 0, -1
	for i, a := range answers {
		switch {
		case exchanges[i].unsent():
			return
		case a == nil:
			failed++
		case !r.same(a, mix[i%len(mix)].alone):
			other++
		default:
			continue
		}
		if first < 0 {
			first = i
		}
	}
	if first >= 0 {
		r.fail(exchanges[first], "of %d requests at once, %d failed and %d had another answer, such as: %s; alone it is %s", together, failed, other,
			exchanges[first].Outcome(), mix[first%len(mix)].alone.verdict())
	}
}

// sameName fails if a decision is kept by the name of an object: of two objects with a name that was not sent before, in turn the one and the
// other first, the second has always the answer of the first.
func (r *run) sameName(pair []asked) {
	var second *Answer
	for range 10 {
		slices.Reverse(pair)
		name := freshName()
		first, _ := r.client.review(r, pair[0].review.named(name))
		second, _ = r.client.review(r, pair[1].review.named(name))
		if first == nil || second == nil || first.decided() != pair[0].alone.decided() || second.decided() != first.decided() {
			return
		}
	}
	r.fail(second.Exchange, "an object is %s, as another one of its name was before; under another name it is %s", second.verdict(),
		pair[1].alone.verdict())
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
