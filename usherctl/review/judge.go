package review

import (
	"strings"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/usherctl/report"
)

// passed reports whether the route did not refuse or fail.
func passed(c report.Call) bool {
	switch handlers.Outcome(c.Outcome) {
	case handlers.Allowed, handlers.Mutated:
		return true
	}
	return false
}

// judge sets the verdict that follows from the calls. It is Allowed or Denied only if nothing that is not known here
// could change that. What is not known is listed whatever the verdict.
func (r *reviewed) judge() {
	certain, denied, failed, open := true, false, false, false
	for _, c := range r.Calls {
		refused, unknown := c.Outcome == string(handlers.Denied), c.Unjudged()
		denied = denied || refused && certain && refusesAnyway(c)
		failed = failed || !passed(c) && !refused && len(unknown) == 0
		open = open || refused
		if !strings.HasPrefix(c.Path, "/validate-") {
			certain = certain && len(unknown) == 0
		}
		r.Unjudged = append(r.Unjudged, unknown...)
	}
	switch {
	case denied:
		r.Verdict = report.Denied
	case failed:
		r.Verdict = report.Errored
	case open || len(r.Unjudged) > 0:
		r.Verdict = report.NotJudged
	}
}

// refusesAnyway reports whether a denial does not depend on what is not known here.
func refusesAnyway(c report.Call) bool {
	refusals := 0
	for _, s := range c.Steps {
		if len(s.Refused) == 0 || s.Mode != string(admit.Enforce) {
			continue
		}
		if refusals++; len(s.Unknown) == 0 {
			return true
		}
	}
	return refusals == 0 // the object was refused before any step, such as for its size
}
