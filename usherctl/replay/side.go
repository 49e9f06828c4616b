package replay

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/tool"
)

// worker reviews requests one at a time.
type worker struct {
	new, was *side // was is nil if the new policy is compared with what the log has
	missing  review.MissingRecorder
	at       time.Time // of the request: overrides end
	static   []admit.Route
	routes   []admit.Route // of both sides
}

// side is usher under one of the policies.
type side struct {
	*worker
	routes     []admit.Route
	namespaces review.Namespaces
	notCalled  func(admit.Route, *admit.Request) string
	lacking    map[string]string // by path, what its steps ask for that no file has
}

func newWorker(env tool.Env, o review.AuditLogs, policy, was *config.Policy) (*worker, error) {
	w := &worker{missing: review.MissingRecorder{Remedy: ", which is in none of the files: --cluster-dir adds it"},
		static: env.Suites.Table(suite.NoPolicy, o.Gates)}
	from := o.Cluster
	from.Missing = w.missing.Missing
	in, err := suite.Load(suite.Setup{Suites: env.Suites, Names: o.Suites, Policy: policy, Gates: o.Gates, Cluster: from,
		Now: func() time.Time { return w.at }})
	if err != nil {
		return nil, err
	}
	w.new = newSide(w, in, o)
	w.routes = w.new.routes
	if was != nil {
		in.Policy = was
		w.was = newSide(w, in, o)
		w.routes = append(w.was.routes[:len(w.was.routes):len(w.was.routes)], w.routes...)
	}
	return w, nil
}

// mayCover reports whether a route of a side is for requests such as one whose object is not known.
func (w *worker) mayCover(req *admit.Request) bool {
	covers := func(m admit.Match) bool {
		if m.Kind == (metav1.GroupVersionKind{}) {
			return m.Rule.Covers(req)
		}
		return slices.Contains(m.Resources, req.ResourceName()) && slices.Contains(m.Operations, req.Operation)
	}
	return slices.ContainsFunc(w.routes, func(r admit.Route) bool { return slices.ContainsFunc(r.For, covers) })
}

func newSide(w *worker, in suite.Instance, o review.AuditLogs) *side {
	s := &side{worker: w, routes: in.Routes(), namespaces: o.Namespaces, lacking: map[string]string{}}
	s.notCalled = o.Namespaces.NotCalled(s.routes)
	known := []string{admit.CollectionNamespaces} // one by one, see MissingRecorder
	if o.Cluster.Dir != "" {
		known = append(known, admit.CollectionLimitRanges) // which many clusters do not have
	}
	empty := map[string]bool{}
	for _, collection := range in.Cluster.Status() {
		empty[collection.Name] = collection.Objects == 0 && !slices.Contains(known, collection.Name)
	}
	for _, r := range s.routes {
		if r.Chain.Commits() {
			s.lacking[r.Path] = r.Path + " counts what quotas have: how much that was is not in the log"
		}
		for _, step := range r.Chain.Steps() {
			i := slices.IndexFunc(step.Needs, func(name string) bool { return empty[name] })
			if i >= 0 && !step.Idle && step.Mode != admit.Off {
				s.lacking[r.Path] = fmt.Sprintf("%s asks for %s, of which no file has any: --cluster-dir adds them", step.Name, step.Needs[i])
			}
		}
	}
	s.routes = append(s.routes, in.Off()...)
	return s
}

// replayed is what usher does with a request under a policy.
type replayed struct {
	report.Report
	doubts map[string]string // by path, why it is not known whether the API server calls it
	unsent string            // why no route is called
	// mutates reports whether a mutating route is called.
	mutates bool
	lacks   []string // what was not looked at
}

// run runs the steps of usher on a request of the log.
func (s *side) run(ctx context.Context, rec recording) (is replayed, err error) {
	is.doubts, s.at = map[string]string{}, rec.event.Received
	choice, err := s.choose(rec, &is)
	if err != nil {
		return is, err
	}
	s.missing.TakeUnknown()
	choice.TakeUnknown = s.missing.TakeUnknown
	is.mutates = slices.ContainsFunc(choice.Routes, func(r admit.Route) bool { return r.Chain.Mutates() })
	if len(choice.Routes) == 0 && len(choice.NotCalled) > 0 {
		is.unsent = choice.NotCalled[0].Why
	}
	recorded, was := rec.report(choice.Routes)
	is.Report, err = review.Replay(ctx, rec.body, recorded, was, choice)
	return is, err
}

// choose returns the routes that are called, and notes what is not known.
func (s *side) choose(rec recording, is *replayed) (choice review.Choice, err error) {
	chooser := review.Chooser{Routes: s.routes, NotCalled: func(r admit.Route, req *admit.Request) string {
		why, doubt := s.called(r, req, rec)
		if doubt {
			is.doubts[r.Path] = fmt.Sprintf("whether %s is called: the Namespace %s is in none of the files: --cluster-dir adds it", r.Webhook(),
				req.Namespace)
		}
		return why
	}}
	if choice, err = chooser.Choose(rec.body); err != nil {
		return choice, err
	}
	if len(choice.Routes)+len(choice.NotCalled) == 0 { // maybe because it is none
		if _, _, err = handlers.ReadReview(rec.body); err != nil {
			return choice, err
		}
	}
	has := func(routes []admit.Route, path string) bool {
		return slices.ContainsFunc(routes, func(r admit.Route) bool { return r.Path == path })
	}
	if by := rec.refused.Path; by != "" && !has(s.routes, by) {
		is.lacks = append(is.lacks, by+" refused it, which is of none of the suites")
	}
	for _, r := range s.routes { // called, although not for such requests under this policy
		if rec.logged(r.Path) && !has(choice.Routes, r.Path) && (r.Chain.Mutates() || !r.Off) {
			choice.Routes = append(choice.Routes, r)
		}
	}
	choice.Routes = slices.DeleteFunc(choice.Routes, func(r admit.Route) bool {
		if s.lacking[r.Path] != "" {
			is.lacks = append(is.lacks, s.lacking[r.Path])
		}
		return s.lacking[r.Path] != ""
	})
	return choice, nil
}

// logged reports whether the log has a call of a route.
func (r *recording) logged(path string) bool {
	return path == r.refused.Path || slices.ContainsFunc(r.calls, func(c report.Call) bool { return c.Path == path })
}

// report returns what was recorded, for the routes that are called now, and the routes that the log has.
func (r *recording) report(called []admit.Route) (recorded report.Report, was review.Choice) {
	recorded = report.Report{Verdict: report.Allowed, Before: r.object, After: r.object, Sections: report.Sections{Calls: slices.Clone(r.calls)}}
	reached := !slices.ContainsFunc(r.calls, denies)
	for _, route := range called {
		if !route.Chain.Mutates() && reached {
			recorded.Calls = append(recorded.Calls, report.Call{Path: route.Path, Outcome: string(handlers.Allowed), Before: r.object, Review: r.body})
		}
	}
	for _, c := range recorded.Calls {
		was.Routes = append(was.Routes, admit.Route{Path: c.Path})
	}
	return recorded, was
}

// called returns why the API server does not call a route for a request. doubt: it is not known whether it does. Of an event without a trace of
// usher, the Namespaces alone decide: usher may not have been there.
func (s *side) called(r admit.Route, req *admit.Request, rec recording) (why string, doubt bool) {
	const usher = "system:serviceaccount:usher:usher"
	logged, traced := rec.logged, rec.traced
	isStatic := func(path string) bool {
		return slices.ContainsFunc(s.static, func(other admit.Route) bool { return other.Path == path && other.Covers(req) })
	}
	switch {
	case logged(r.Path):
		return "", false
	case r.NotForUsher && req.UserInfo.Username == usher:
		return "usher does not review its own requests", false
	case traced && r.Chain.Mutates() && isStatic(r.Path):
		return "the log has no call of it", false
	}
	if why = s.notCalled(r, req); why != "" {
		return why, false
	}
	for _, other := range s.routes { // the API server selects the same namespaces for it
		alike := traced && other.Chain.Mutates() && other.Suite == r.Suite && other.OptIn == r.OptIn && !other.Off
		if alike && isStatic(other.Path) && s.notCalled(other, req) == "" {
			if logged(other.Path) {
				return "", false
			}
			return "the log has no call of " + other.Webhook(), false
		}
	}
	_, known := s.namespaces[req.Namespace]
	return "", !known && req.Namespace != "" && !req.AboutNamespace()
}
