package review

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// replay is a recorded report that is being made again.
type replay struct {
	reviewed
	recorded report.Report
	choice   Choice
	// from and to are the object under the recorded routes and under the others, where they differ.
	from, to json.RawMessage
}

// Replay returns the report of a manifest under other routes. The recorded calls are made again, without an API server: what its plug-ins
// changed stays, and so do what it refused itself and the answers of others' webhooks. body is the review of the
// manifest; was and now are the routes that are chosen for it.
func Replay(ctx context.Context, body []byte, recorded report.Report, was, now Choice) (report.Report, error) {
	p := replay{reviewed: reviewed{recorded}, recorded: recorded, choice: now}
	p.Calls, p.Verdict = nil, report.Allowed
	p.Unjudged = slices.DeleteFunc(slices.Clone(recorded.Unjudged), func(text string) bool {
		return slices.ContainsFunc(recorded.Calls, func(c report.Call) bool { return slices.Contains(c.Unjudged(), text) })
	})
	for _, call := range p.calls(was.Routes) {
		if call.Webhook != "" {
			p.Calls = append(p.Calls, call)
		} else if err := p.call(ctx, body, call); err != nil {
			return p.Report, err
		}
		if last := p.Calls[len(p.Calls)-1]; !validates(last) && !passed(last) {
			break
		}
	}
	if p.from != nil {
		p.After, p.Stored = Merge(p.After, p.from, p.to), Merge(p.Stored, p.from, p.to)
	}
	if !slices.ContainsFunc(p.Calls, func(c report.Call) bool { return c.Path != "" }) {
		p.Verdict = report.Skipped
	}
	p.judge()
	if len(p.Invalid) > 0 && !slices.Contains([]report.Verdict{report.Denied, report.Errored}, p.Verdict) {
		p.Verdict = recorded.Verdict
	}
	return p.Report, nil
}

// validates reports whether a call is that of a validating webhook.
func validates(c report.Call) bool { return c.Validates || strings.HasPrefix(c.Path, "/validate-") }

// calls returns the recorded calls of routes that are still called, those of others' webhooks, and an empty call of each other route that is
// called now: it was not chosen, or not reached. Mutating routes come first.
func (p *replay) calls(was []admit.Route) (all []report.Call) {
	reached := true
	for _, call := range p.recorded.Calls {
		if call.Webhook != "" || indexOf(p.choice.Routes, call.Path) >= 0 ||
			indexOf(was, call.Path) < 0 && indexOf(p.choice.chooser.Routes, call.Path) >= 0 {
			all = append(all, call)
		}
		reached = reached && (validates(call) || passed(call))
	}
	for _, route := range p.choice.Routes {
		recorded := slices.ContainsFunc(p.recorded.Calls, func(c report.Call) bool { return c.Path == route.Path })
		if !recorded && (!reached || indexOf(was, route.Path) < 0) {
			all = append(all, report.Call{Path: route.Path})
		}
	}
	slices.SortStableFunc(all, func(a, b report.Call) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

func rank(c report.Call) int {
	if validates(c) {
		return 1
	}
	return 0
}

func indexOf(routes []admit.Route, path string) int {
	return slices.IndexFunc(routes, func(r admit.Route) bool { return r.Path == path })
}

// call makes a call again, with the object as the calls before have made it.
func (p *replay) call(ctx context.Context, body []byte, recorded report.Call) error {
	routes, asked, object := p.choice.chooser.Routes, recorded.Review, recorded.Before
	route := routes[indexOf(routes, recorded.Path)]
	if asked == nil {
		asked, object = body, p.recorded.After
	}
	sent := object
	if p.from != nil {
		sent = Merge(object, p.from, p.to)
	}
	if len(sent) > 0 && (p.from != nil || recorded.Review == nil) {
		var err error
		if asked, err = requests.WithObject(asked, sent); err != nil {
			return err
		}
	}
	call, d := decide(ctx, route, asked, p.choice)
	call.Round = recorded.Round
	p.Calls = append(p.Calls, call)
	if !route.Chain.Mutates() {
		return nil
	}
	return p.apply(recorded, d, object, sent)
}

// apply notes what the answer of a mutating route made of the object, where it is not what the recorded one made of it.
func (p *replay) apply(recorded report.Call, d handlers.Decision, object, sent json.RawMessage) error {
	call := &p.Calls[len(p.Calls)-1]
	if d.Response != nil && len(d.Response.Patch) > 0 {
		if err := json.Unmarshal(d.Response.Patch, &call.Patch); err != nil {
			return err
		}
	}
	same := slices.EqualFunc(call.Patch, recorded.Patch, func(a, b report.Operation) bool { return a.String() == b.String() })
	if p.from == nil && same { // and so is what the API server drops of its result
		call.Warnings = append(call.Warnings, slices.DeleteFunc(slices.Clone(recorded.Warnings), func(w string) bool { return !isDropped(w) })...)
		return nil
	}
	if len(call.Patch) > 0 {
		after, err := apply(call, d)
		if err != nil {
			return err
		}
		warnDropped(call, d, after)
		sent = after
	}
	if len(recorded.Patch) > 0 {
		var err error
		if object, err = requests.Patched(object, recorded.Patch); err != nil {
			return err
		}
	}
	p.from, p.to = object, sent
	return nil
}
