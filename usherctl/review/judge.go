package review

import (
	"fmt"
	"strings"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
)

// passed reports whether the route did not refuse or fail.
func (c Call) passed() bool {
	switch handlers.Outcome(c.Outcome) {
	case handlers.Allowed, handlers.Mutated:
		return true
	}
	return false
}

// judge sets the verdict that follows from the calls. It is Allowed or Denied only if nothing that is not known here
// could change that. What is not known is listed whatever the verdict.
func (r *Report) judge() {
	certain, denied, failed, open := true, false, false, false
	for _, c := range r.Calls {
		refused, unknown := c.Outcome == string(handlers.Denied), c.unknown()
		denied = denied || refused && certain && c.refusesAnyway()
		failed = failed || !c.passed() && !refused && len(unknown) == 0
		open = open || refused
		if !strings.HasPrefix(c.Path, "/validate-") {
			certain = certain && len(unknown) == 0
		}
		r.Unjudged = append(r.Unjudged, unknown...)
	}
	switch {
	case denied:
		r.Verdict = Denied
	case failed:
		r.Verdict = Errored
	case open || len(r.Unjudged) > 0:
		r.Verdict = NotJudged
	}
}

// markUnjudged notes what is not known of the object that the calls were about, if anything.
func (r *Report) markUnjudged(unknown error) {
	if unknown == nil {
		return
	}
	r.Unjudged = append(r.Unjudged, unknown.Error())
	if r.Verdict == Allowed || r.Verdict == Denied {
		r.Verdict = NotJudged
	}
}

// refusesAnyway reports whether a denial does not depend on what is not known here.
func (c Call) refusesAnyway() bool {
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

// unknown says what the steps of a call asked for that is not known here.
func (c Call) unknown() (all []string) {
	for _, s := range c.Steps {
		for _, what := range s.Unknown {
			all = append(all, fmt.Sprintf("%s asks for %s", s.Name, what))
		}
	}
	step, _, _ := strings.Cut(c.Message, ": ")
	for _, what := range c.failedFor {
		if text := fmt.Sprintf("%s asks for %s", step, what); strings.Contains(c.Message, noSuchKey) && strings.Contains(c.Message, "namespaceObject") {
			all = append(all, text+"; for labels that a Namespace may lack, write namespaceObject.metadata.?labels.?env.orValue('')")
		} else {
			all = append(all, text)
		}
	}
	return all
}

// askedFor adds to all steps of a call that they may have asked for something that is not known here.
func (c *Call) askedFor(what string) {
	for i := range c.Steps {
		c.Steps[i].Unknown = append(c.Steps[i].Unknown, what)
	}
}

// noSuchKey is in the error of an expression that selects a field which an object lacks.
const noSuchKey = "no such key: "
