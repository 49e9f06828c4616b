package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/usherctl/report"
)

// Explained returns routes whose steps say why they acted or did nothing.
func Explained(routes []admit.Route) []admit.Route {
	all := slices.Clone(routes)
	for i := range all {
		all[i].Chain = all[i].Chain.Explained()
	}
	return all
}

// Choice describes what an API server would do with a request.
type Choice struct {
	Routes    []admit.Route      // that it would call, in order: mutating ones first
	NotCalled []report.NotCalled // that are for such requests, but not for this one
	Hint      string             // what to try when none is called
	Documents bool               // keep the object after each step: Step.After
	Recorded  bool               // keep the review of each call, for Replay
	// Assumed reports that the stored object of an update is not known, and taken to be the object itself.
	Assumed bool
	// TakeUnknown returns and clears the recorded requests for what is not known here. Nil: all is known.
	TakeUnknown func() []string
	// Strict refuses manifests with unknown or duplicate fields, as an API server does that is asked to.
	Strict bool
	// Ledger has what is used of ResourceQuotas by the objects before. Nil: the object is judged alone.
	Ledger *Ledger

	api     *API
	chooser Chooser
}

// Chooser chooses routes.
type Chooser struct {
	Routes []admit.Route
	Path   string // calls this route, whatever the request is; "" for those that an API server would call
	// In judges the requests of manifests. Nil: an API server that calls the chosen routes, and knows nothing of objects itself.
	In *API
	// Answers are those of webhooks that are not usher's. Without one, a request that they are called for is not judged.
	Answers []GivenAnswer
	// NotCalled returns why the webhook configurations keep the API server from calling a route, or "". Nil: they never do.
	NotCalled func(admit.Route, *admit.Request) string
	// Setting names a setting of the request with a value, or "", for a hint. Nil: as a flag of usherctl review.
	Setting func(name, value string) string
	// SwitchesOn returns the feature gates that switch on a route that is off, or "". Nil: none is off.
	SwitchesOn func(path string) string
}

// setting names a setting of the request.
func (c Chooser) setting(name, value string) string {
	if c.Setting != nil {
		return c.Setting(name, value)
	}
	return strings.TrimSpace("--" + name + " " + value)
}

// Choose returns the routes for a review. An invalid review gets none: Run reports why.
func (c Chooser) Choose(body []byte) (Choice, error) {
	choice, err := c.chosen(body)
	choice.api, choice.chooser = c.In, c
	return choice, err
}

func (c Chooser) chosen(body []byte) (Choice, error) {
	if c.Path != "" {
		i := slices.IndexFunc(c.Routes, func(r admit.Route) bool { return r.Path == c.Path })
		if i < 0 {
			return Choice{}, c.noSuchPath()
		}
		return Choice{Routes: c.Routes[i : i+1]}, nil
	}
	_, req, err := handlers.ReadReview(body)
	if err != nil {
		return Choice{}, nil
	}
	defer req.Release()
	choice := c.choose(req)
	if len(choice.Routes)+len(choice.NotCalled) == 0 {
		choice.Hint = c.hint(req)
	}
	return choice, nil
}

// noSuchPath returns the error for a path that is of no route, or of none that is on, with the gates or the most similar path.
func (c Chooser) noSuchPath() error {
	at := c.setting("path", c.Path)
	if c.SwitchesOn != nil {
		if gates := c.SwitchesOn(c.Path); gates != "" {
			return fmt.Errorf("%s: the route is off; %s switches it on", at, c.setting("feature-gates", gates))
		}
	}
	var paths []string
	for _, r := range c.Routes {
		paths = append(paths, r.Path)
	}
	return fmt.Errorf("%s: there is no such route%s", at, cmp.Or(nearest.Question(c.Path, paths), "; `usherctl steps` lists them"))
}

func (c Chooser) choose(req *admit.Request) (choice Choice) {
	var validating []admit.Route
	for _, r := range c.Routes {
		if !r.Covers(req) || !r.Changes(req) {
			continue
		}
		if c.NotCalled != nil {
			if why := c.NotCalled(r, req); why != "" {
				choice.NotCalled = append(choice.NotCalled, report.NotCalled{Path: r.Path, Why: why})
				continue
			}
		}
		if r.Chain.Mutates() {
			choice.Routes = append(choice.Routes, r)
		} else {
			validating = append(validating, r)
		}
	}
	choice.Routes = append(choice.Routes, validating...)
	return choice
}

// hint says how to reach a route for a kind of object that was sent in another way.
func (c Chooser) hint(req *admit.Request) string {
	for _, r := range c.Routes {
		switch {
		case !r.Covers(req):
		case req.Operation != admissionv1.Update:
			return "no registered webhook of usher is called for it, because of its Namespace, a selector or a condition: usherctl doctor -f FILE says why"
		case len(r.Reads) > 0:
			return "no route is called for an update that changes nothing in " + strings.Join(r.Reads, ", ") +
				"; " + c.setting("old", "") + " names the stored object of a manifest, " + c.setting("path", "") + " calls a route all the same"
		}
	}
	for _, r := range c.Routes {
		for _, m := range r.For {
			if m.Kind == req.Kind && len(m.Operations) > 0 {
				return c.howToReach(r, m, req)
			}
		}
	}
	for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete} {
		other := *req
		other.Operation = operation
		if slices.ContainsFunc(c.Routes, func(r admit.Route) bool { return r.Covers(&other) }) {
			return fmt.Sprintf("no route is for its %s; one is for %s: try %s", req.Operation, operation,
				c.setting("operation", string(operation))+c.andOld(operation))
		}
	}
	return report.NoRoute
}

// howToReach returns a hint with the settings that make a request match a route.
func (c Chooser) howToReach(r admit.Route, m admit.Match, req *admit.Request) string {
	hint := "no route is called for this; try " + c.setting("operation", string(m.Operations[0]))
	if _, sub, ok := strings.Cut(m.Resources[0], "/"); ok {
		hint += " " + c.setting("subresource", sub)
	} else if req.SubResource != "" {
		hint += " without " + c.setting("subresource", "")
	}
	if r.Heartbeat() {
		return hint + " " + c.setting("as", "system:node:"+req.ObjectName())
	}
	return hint + c.andOld(m.Operations[0])
}

// andOld names the setting of the stored object, if an operation has one that is changed.
func (c Chooser) andOld(operation admissionv1.Operation) string {
	if operation != admissionv1.Update {
		return ""
	}
	return " and " + c.setting("old", "")
}
