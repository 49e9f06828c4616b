package handlers

import (
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/printable"
)

// Record is a line of the audit log: a decision, and how it came about. It has names, field paths and types of rules,
// but no value of an object. Later versions only add fields; docs/audit-log.md describes them.
type Record struct {
	Time time.Time `json:"time"`
	// ID is the process's ID and the number of the decision in it: a missing number is a dropped line.
	ID    string `json:"id"`
	Route string `json:"route"`

	UID         string   `json:"uid,omitempty"`
	Operation   string   `json:"operation,omitempty"`
	Group       string   `json:"group,omitempty"`
	Version     string   `json:"version,omitempty"`
	Kind        string   `json:"kind,omitempty"`
	Resource    string   `json:"resource,omitempty"`
	Subresource string   `json:"subresource,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
	Name        string   `json:"name,omitempty"` // or the generateName, and a star
	User        string   `json:"user,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	DryRun      bool     `json:"dryRun,omitempty"`

	Verdict   string         `json:"verdict"`
	Code      int            `json:"code"`
	Refusal   string         `json:"refusal,omitempty"` // the id that the message of a denial ends with
	Duration  float64        `json:"durationSeconds"`
	Steps     []StepRecord   `json:"steps,omitempty"`
	Untouched string         `json:"untouched,omitempty"` // why no step ran
	Limit     string         `json:"limit,omitempty"`     // that was exceeded
	Tolerated []string       `json:"troubles,omitempty"`
	Refused   []RefuseRecord `json:"refused,omitempty"` // what no step has refused, such as too many containers
	Error     string         `json:"error,omitempty"`   // ours or the caller's
	Panic     bool           `json:"panic,omitempty"`
	Repeated  int            `json:"repeated,omitempty"` // lines about unknown callers that were left out before this one
}

// StepRecord describes what a step did.
type StepRecord struct {
	Name        string         `json:"name"`
	Mode        string         `json:"mode"`
	Override    string         `json:"override,omitempty"` // that has set the mode
	Changed     bool           `json:"changed,omitempty"`
	WouldChange bool           `json:"wouldChange,omitempty"` // in mode enforce
	Refused     []RefuseRecord `json:"refused,omitempty"`     // in mode enforce, otherwise it would have
}

// RefuseRecord is a problem: a path, and the type of the rule.
type RefuseRecord struct {
	Field string `json:"field"`
	Type  string `json:"type"`
}

// maxGroups is the maximum number of a user's groups in the audit log.
const maxGroups = 50

// Audit writes a line of JSON for each decision, but for those that keep unknown callers out only some: any client can
// cause as many as it likes, and rotation would remove the decisions about others. to must not keep the caller waiting.
func Audit(process string, to io.Writer) Observe {
	var number atomic.Uint64
	strangers := repeats{most: mostAlike, every: alikeTime}
	return func(route admit.Route, d Decision, took time.Duration) {
		record := newRecord(route, d, took)
		if d.Outcome == Unauthenticated {
			allowed, before := strangers.allow(record.Error, time.Now())
			if !allowed {
				return
			}
			record.Repeated = before
		}
		record.Time, record.ID = time.Now().UTC(), fmt.Sprintf("%s-%d", process, number.Add(1))
		line, err := json.Marshal(record)
		if err != nil { // of texts and numbers: it cannot fail
			return
		}
		_, _ = to.Write(append(line, '\n'))
	}
}

func newRecord(route admit.Route, d Decision, took time.Duration) Record {
	r := Record{Route: route.Path, Verdict: string(d.Outcome), Code: d.Code, Refusal: d.Refusal, Duration: took.Seconds(),
		Untouched: legible(d.Untouched),
		Limit:     d.Exceeded.Limit, Panic: d.Stack != nil}
	if d.Err != nil {
		r.Error = legible(cause(d.Err))
	}
	if d.Request != nil {
		r.about(d.Request)
	}
	for _, s := range d.Result.Steps {
		r.Steps = append(r.Steps, stepRecord(s))
	}
	for _, p := range d.Result.Problems {
		if p.Step == limitsStep {
			r.Refused = append(r.Refused, RefuseRecord{legible(admit.PathOf(p.Error)), string(p.Type)})
		}
	}
	return r
}

// about sets what the request is about.
func (r *Record) about(req *admit.Request) {
	r.UID, r.Operation, r.DryRun, r.Tolerated = legible(string(req.UID)), legible(string(req.Operation)), req.DryRun, req.ToleratedErrors()
	r.Group, r.Version, r.Kind = legible(req.Kind.Group), legible(req.Kind.Version), legible(req.Kind.Kind)
	r.Resource, r.Subresource = legible(req.Resource.Resource), legible(req.SubResource)
	r.Namespace, r.Name, r.User = legible(req.Namespace), legible(req.ObjectName()), legible(req.UserInfo.Username)
	for _, group := range req.UserInfo.Groups[:min(len(req.UserInfo.Groups), maxGroups)] {
		r.Groups = append(r.Groups, legible(group))
	}
}

func stepRecord(s admit.StepResult) StepRecord {
	r := StepRecord{Name: s.Name, Mode: string(s.Mode), Changed: s.Changed, WouldChange: s.WouldChange}
	if s.Override != nil {
		r.Override = s.Override.Name
	}
	for _, p := range s.Refused[:min(len(s.Refused), maxProblems)] {
		r.Refused = append(r.Refused, RefuseRecord{legible(admit.PathOf(p)), string(p.Type)})
	}
	return r
}

// legible returns a text of the caller, shortened and without what is not printable.
func legible(text string) string { return printable.Line(admit.Shorten(text, maxField)) }
