package explain

import (
	"time"

	"usher.dev/usher/handlers"
	"usher.dev/usher/usherctl/report"
)

// Decision is a line of usher's own audit log.
type Decision struct {
	Place Place
	handlers.Record
}

// MatchesDecision reports whether the filter matches a decision. Usher's audit log has no UID of objects.
func (f Filter) MatchesDecision(d *Decision) bool {
	e := Event{Stage: "ResponseComplete", Verb: "create",
		ObjectRef: objectRef{Resource: d.Resource, Subresource: d.Subresource, Namespace: d.Namespace, Name: d.Name}}
	return f.UID == "" && (f.Refusal == "" || f.Refusal == d.Refusal) && Filter{Namespace: f.Namespace, Name: f.Name, Kind: f.Kind}.Matches(&e)
}

// OfDecision returns what usher's audit log says of a request.
func OfDecision(d *Decision) report.Report {
	kind := d.Kind
	if d.Subresource != "" {
		kind += "/" + d.Subresource
	}
	call := report.Call{Path: d.Route, Outcome: d.Verdict, Code: d.Code, Refusal: d.Refusal, Untouched: d.Untouched, Message: d.Error}
	for _, s := range d.Steps {
		step := report.Step{Name: s.Name, Mode: s.Mode, Override: s.Override}
		for _, refused := range s.Refused {
			step.Refused = append(step.Refused, refused.Field+": "+refused.Type)
			step.Why = append(step.Why, refused.Field+": "+refused.Type)
		}
		call.Steps = append(call.Steps, step)
	}
	verdict := report.Allowed
	switch handlers.Outcome(d.Verdict) {
	case handlers.Denied:
		verdict = report.Denied
	case handlers.Allowed, handlers.Mutated:
	default:
		verdict = report.Failed
	}
	return report.Report{Verdict: verdict, Sections: report.Sections{Calls: []report.Call{call}}, Subject: report.Subject{Source: d.Place.String(),
		Kind: kind, Namespace: d.Namespace, Name: d.Name, Operation: d.Operation,
		Request: &report.Request{Time: d.Time.UTC().Format(time.RFC3339Nano), User: d.User, Groups: d.Groups, DryRun: d.DryRun}}}
}
