// Package report has what the tools say, in the forms that people and other programs read: findings, verdicts and exit codes, as harmless text, JSON
// and JUnit.
package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/answer"
	"usher.dev/usher/server/suite"
)

// Report is a tool's report on a subject. `usherctl review -o json` and the like print its JSON form, to which fields are
// only ever added.
type Report struct {
	Subject
	Verdict Verdict `json:"verdict"`
	Sections
	// Findings lists what is wrong, the worst first.
	Findings []Finding `json:"findings,omitempty"`
	// Before is the object as it came, After as it would be stored, but without what the API server adds to each object of its kind. Stored
	// has that, too; it is empty if no API server has judged.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Stored json.RawMessage `json:"-"`
	// Notes holds the notes of suites, beside the calls. In JSON each is a member of its own.
	Notes []suite.Note `json:"-"`
	// Hint says what to try next.
	Hint string `json:"hint,omitempty"`
}

// Subject is the object that was reviewed, or what was examined.
type Subject struct {
	// Case is the name of a case of `usherctl test` or of a lesson.
	Case string `json:"case,omitempty"`
	// Source is the file, and which document of it.
	Source    string `json:"source"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Operation is empty for what was examined, and not reviewed.
	Operation string `json:"operation"`
	// Request is the request as an audit event recorded it: usherctl explain.
	Request *Request `json:"request,omitempty"`
	// Webhook is a webhook of the configuration Name: usherctl doctor without a manifest.
	Webhook string `json:"webhook,omitempty"`
	// Of names the workload whose pod this is, such as "Deployment web → its pods"; empty for what a file holds.
	Of string `json:"of,omitempty"`
	// Owner is the workload of a pod that a cluster has, such as "Deployment shop/web".
	Owner string `json:"owner,omitempty"`
	// Updates is the stored object that is updated, such as "Deployment shop/web", maybe that of a pod's workload; empty for others.
	Updates string `json:"updates,omitempty"`
}

// Sections are the parts of a report. Each tool fills its own.
type Sections struct {
	// Calls are the routes that were called, in order; a denial or an error ends them. For usherctl explain they are the
	// webhooks that an API server called.
	Calls []Call `json:"calls"`
	// Plugins are the admission plug-ins of the API server, and its policies, that changed or refused the object, in their order.
	Plugins []Plugin `json:"plugins,omitempty"`
	// Invalid says why an API server would refuse the object whatever webhooks say.
	Invalid []string `json:"invalid,omitempty"`
	// Unjudged says what the steps asked for that is not known here, so that an API server may decide otherwise.
	Unjudged []string `json:"unjudged,omitempty"`
	// Warnings are about how the document is written.
	Warnings []string `json:"warnings,omitempty"`
	// Unknown are the fields that the kind does not know. kubectl refuses them, and the API server drops them.
	Unknown []string `json:"unknown,omitempty"`
	// NotCalled are the routes for such a request that the shipped configurations keep away from it.
	NotCalled []NotCalled `json:"notCalled,omitempty"`
	// Webhooks lists the webhooks of all configurations of the cluster, in the order in which the API server asks them, and whether
	// it would call each: usherctl doctor.
	Webhooks []Webhook `json:"webhooks,omitempty"`
	// Blame has the fields that webhooks changed, each with its last writer: usherctl explain --blame.
	Blame []Blame `json:"blame,omitempty"`
}

// MarshalJSON writes the notes as members before the hint, and no calls as an empty list.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report // without this method
	members := slices.Clip(r.Notes)
	if r.Hint != "" {
		members = append(members, suite.Note{Name: "hint", Value: r.Hint})
	}
	if r.Hint = ""; r.Calls == nil {
		r.Calls = []Call{}
	}
	text, err := json.Marshal(plain(r))
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-1]
	for _, m := range members {
		value, err := json.Marshal(m.Value)
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, ",%q:%s", m.Name, value)
	}
	return append(text, '}'), nil
}

// Changed reports whether the object would be stored in another form than it was sent.
func (r Report) Changed() bool {
	return slices.ContainsFunc(r.Calls, func(c Call) bool { return c.Outcome == string(handlers.Mutated) })
}

// Decisive returns the call that says why: the first that refuses, or else the last. ok is false if there is none.
func (r Report) Decisive() (call Call, ok bool) {
	for _, call = range r.Calls {
		if call.Outcome == string(handlers.Denied) {
			break
		}
	}
	return call, len(r.Calls) > 0
}

// Webhook is a webhook of a configuration, and whether the API server would call it.
type Webhook struct {
	Configuration string `json:"configuration"` // kind and name
	Name          string `json:"name"`
	Path          string `json:"-"` // that is called, with what a URL has before it
	Called        bool   `json:"called"`
	// Filter names the filter that keeps the request away from the webhook: exempt, rules, scope, matchPolicy,
	// namespaceSelector, objectSelector, matchConditions, sideEffects or refused, of a canary also unanswered or registration; "unknown" if it
	// cannot be told. For a called webhook, Why names the resource as which it gets the object, if that is another one.
	Filter string `json:"filter,omitempty"`
	Why    string `json:"why,omitempty"`
	// Fix is the command that corrects the registration of usher, if that is what is wrong.
	Fix string `json:"fix,omitempty"`
}

// NotCalled is a route that the API server would not call, and why.
type NotCalled struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Call is the result of one route.
type Call struct {
	Path    string `json:"path"`
	Outcome string `json:"outcome"` // allowed, mutated, denied, invalid or error
	Code    int    `json:"code"`
	Reason  string `json:"reason,omitempty"`
	// Message says why not, Untouched why the steps were not run.
	Message   string               `json:"message,omitempty"`
	Untouched string               `json:"untouched,omitempty"`
	Causes    []metav1.StatusCause `json:"causes,omitempty"`
	Warnings  []string             `json:"warnings,omitempty"`
	Audit     map[string]string    `json:"audit,omitempty"`
	// Refusal is the id that the message of a denial ends with.
	Refusal string      `json:"refusal,omitempty"`
	Steps   []Step      `json:"steps,omitempty"`
	Patch   []Operation `json:"patch,omitempty"`

	Before    json.RawMessage `json:"-"` // the object as it was sent; asked for with Choice.Documents or Recorded
	Review    []byte          `json:"-"` // the AdmissionReview; asked for with Choice.Recorded
	Validates bool            `json:"-"` // of a webhook that is not usher's: it changes nothing
	FailedFor []string        `json:"-"` // what the step that failed asked for, and is not known here

	// What follows is of a webhook that an API server called, as its audit event recorded it, and Path is empty.
	// Configuration and Webhook are its names, and Round counts from 1: in round 2 it was called again.
	Configuration string `json:"configuration,omitempty"`
	Webhook       string `json:"webhook,omitempty"`
	Round         int    `json:"round,omitempty"`
	// Changes says what the patch changed, by the names of list elements. After is the object then, as far as it is
	// known: Known is "exact" if it equals what was stored, else "rebuilt".
	Changes []string        `json:"changes,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
	Known   string          `json:"known,omitempty"`
}

// Plugin is an admission plug-in of the API server that changed or refused an object.
type Plugin struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"` // changed or refused
	Round   int    `json:"round,omitempty"`
	Message string `json:"message,omitempty"` // of a refusal
	// Before and After are the object; asked for with Choice.Documents.
	Before json.RawMessage `json:"-"`
	After  json.RawMessage `json:"-"`
}

// Step is the result of one step.
type Step struct {
	Name string `json:"name"`
	Mode string `json:"mode"`
	// Override is the override of the policy that set the mode.
	Override string   `json:"override,omitempty"`
	Refused  []string `json:"refused,omitempty"`
	// Why says why the step did what it did, or nothing; asked for with --explain.
	Why []string `json:"why,omitempty"`
	// Patch is the operations of the patch that the step added or made larger.
	Patch []Operation `json:"patch,omitempty"`
	// Unknown names what the step asked for that is not known here, such as "namespace apps".
	Unknown []string `json:"unknown,omitempty"`
	// After is the object as the step left it, and Took how long the step ran; asked for with Choice.Documents.
	After json.RawMessage `json:"-"`
	Took  time.Duration   `json:"-"`
}

// Operation is one operation of a JSON patch.
type Operation = answer.Operation

// Examined returns the report of what was examined, with the verdict that follows from its findings.
func Examined(s Subject, findings ...Finding) Report {
	return Report{Subject: s, Verdict: VerdictOf(findings), Findings: findings}
}

// Failing returns the report with a call that failed, and as an error.
func (r Report) Failing(call Call) Report {
	r.Calls, r.Verdict = append(r.Calls, call), Errored
	return r
}

// Unjudged returns what the steps of a call asked for that is not known here.
func (c Call) Unjudged() (all []string) {
	for _, s := range c.Steps {
		for _, what := range s.Unknown {
			all = append(all, fmt.Sprintf("%s asks for %s", s.Name, what))
		}
	}
	step, _, _ := strings.Cut(c.Message, ": ")
	for _, what := range c.FailedFor {
		if text := fmt.Sprintf("%s asks for %s", step, what); strings.Contains(c.Message, noSuchKey) && strings.Contains(c.Message, "namespaceObject") {
			all = append(all, text+"; for labels that a Namespace may lack, write namespaceObject.metadata.?labels.?env.orValue('')")
		} else {
			all = append(all, text)
		}
	}
	return all
}

// noSuchKey is in the error of an expression that selects a field which an object lacks.
const noSuchKey = "no such key: "
