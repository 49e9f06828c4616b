package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// Options say what is reported of an event.
type Options struct {
	Blame      bool
	ShowValues bool
	// Steps are the names of usher's steps.
	Steps []string
	// Documents reports that the object after each webhook is asked for: an unknown object then cannot be judged.
	Documents bool
}

// Of returns what is known of a request from its audit event.
func Of(e *Event, o Options) report.Report {
	x := explaining{e: e, o: o, mask: &mask.Mask{Show: o.ShowValues, Secret: e.ObjectRef.Resource == "secrets"}, report: report.Report{
		Subject: report.Subject{Source: e.Place.String(), Kind: e.Kind(), Namespace: e.ObjectRef.Namespace, Name: e.Name(),
			Operation: strings.ToUpper(e.Verb)},
		Verdict: verdictOf(e.ResponseStatus.Code),
	}}
	x.open()
	x.webhooks()
	x.edited()
	x.compare()
	if o.Blame {
		x.report.Blame = x.ledger.blame()
	}
	x.admission()
	x.hide()
	return x.report
}

// verdictOf returns what became of a request. What admission refuses, and what the API server finds invalid, has the
// codes of denials; other codes that are not a success are failures.
func verdictOf(code int) report.Verdict {
	switch {
	case code < 400:
		return report.Allowed
	case code == 400 || code == 403 || code == 422:
		return report.Denied
	}
	return report.Failed
}

// explaining is a report while it is made.
type explaining struct {
	e      *Event
	o      Options
	mask   *mask.Mask
	report report.Report
	ledger ledger

	document json.RawMessage // as far as it is known; nil if it is not
	outline  json.RawMessage // the same with what did apply of the other patches: only for the names of list elements
	last     int             // the place in report.Calls of the last call with a document; -1: none
}

// open sets who sent the request, and the document to begin with: what was sent, unless it is a patch.
func (x *explaining) open() {
	e := x.e
	who, by := e.User, ""
	if e.ImpersonatedUser != nil {
		who, by = *e.ImpersonatedUser, e.User.Username
	}
	x.last = -1
	x.report.Request = &report.Request{User: who.Username, Groups: who.Groups, By: by, UserAgent: e.UserAgent,
		DryRun: e.DryRun(),
		Level:  e.Level, AuditID: e.AuditID, Code: e.ResponseStatus.Code, Message: e.ResponseStatus.Message}
	if !e.Received.IsZero() {
		x.report.Request.Time = e.Received.UTC().Format(time.RFC3339Nano)
	}
	if (e.Verb == "create" || e.Verb == "update") && len(e.RequestObject) > 0 {
		x.document = e.RequestObject
		x.report.Before = x.mask.Object(e.RequestObject)
		x.ledger.start, _ = requests.DecodeJSON(e.RequestObject)
	}
	if e.Verb == "patch" {
		x.remember(e.RequestObject)
	}
	if stored := e.stored(); stored != nil {
		x.report.After = x.mask.Object(stored)
	}
}

// remember finds what is hidden in the patch of a client, which is an object or a list of operations.
func (x *explaining) remember(raw json.RawMessage) {
	var operations []report.Operation
	if json.Unmarshal(raw, &operations) == nil {
		hidden(x.mask, operations)
		return
	}
	x.mask.Object(raw)
}

// DryRun reports whether the request was a dry run.
func (e *Event) DryRun() bool { return strings.Contains(e.RequestURI, "dryRun=") }

// stored returns what was stored, if the event has it. A dry run stores nothing.
func (e *Event) stored() json.RawMessage {
	if _, stored := e.heads(); stored.Kind == "Status" || e.DryRun() || e.Verb == "delete" || e.Verb == "deletecollection" ||
		verdictOf(e.ResponseStatus.Code) != report.Allowed {
		return nil
	}
	return e.ResponseObject
}

// webhooks adds the calls of webhooks.
func (x *explaining) webhooks() {
	calls, err := x.e.Calls()
	if err != nil {
		x.find("annotation-unreadable", report.Unknown, err.Error())
	}
	patches := slices.ContainsFunc(calls, func(c Called) bool { return len(c.Patch) > 0 })
	switch {
	case patches && x.document == nil && x.e.Verb == "patch":
		x.find("document-not-known", report.Info, "the event of a PATCH has the patch of the client, not the object: the changes of each webhook are "+
			"shown as it sent them, and not the object between them")
	case patches && x.document == nil:
		x.find("document-not-known", report.Info, "the event does not have the object that was sent: the changes of each webhook are shown as it sent them")
	}
	for _, c := range calls {
		x.webhook(c)
	}
}

func (x *explaining) webhook(c Called) {
	call := report.Call{Webhook: c.Webhook, Configuration: c.Configuration, Outcome: "allowed"}
	switch {
	case c.FailedOpen:
		call.Outcome, call.Message = "failed open", "the webhook could not be called, and its failurePolicy is Ignore: the request went on without it"
	case c.Mutated || len(c.Patch) > 0:
		call.Outcome = "mutated"
	}
	if c.Mutates {
		call.Round = c.Round + 1
	}
	if c.Mutated && !c.Recorded {
		x.notRecorded()
	}
	changes := x.apply(c, &call)
	for _, change := range changes {
		x.ledger.record(cut(x.mask, change.path), report.Writer{Configuration: c.Configuration, Webhook: c.Webhook, Round: c.Round + 1})
	}
	call.Patch = hidden(x.mask, c.Patch) // before the texts: it finds what must not be in them
	call.Changes = x.phrases(changes)
	if c.Recorded && len(changes) == 0 && len(c.Patch) > 0 {
		call.Changes = []string{"nothing: the patch sets what was there"}
	}
	if x.document != nil && c.Mutates && !c.FailedOpen {
		call.After, call.Known = x.mask.Object(x.document), "rebuilt"
		x.last = len(x.report.Calls)
	}
	x.report.Calls = append(x.report.Calls, call)
}

// notRecorded reports, once, that the event has no patch of a webhook that changed the object.
func (x *explaining) notRecorded() {
	if slices.ContainsFunc(x.report.Findings, func(f report.Finding) bool { return f.ID == "patch-not-recorded" }) {
		return
	}
	why := "the event has no patch of a webhook that changed the object: which webhook it was is known, and what it changed is not"
	if x.e.Level == "Metadata" {
		why = "the audit policy logs this request at level Metadata: which webhooks changed the object is known, and what they changed is not. " +
			"Level Request has their patches"
	}
	x.find("patch-not-recorded", report.Unknown, why)
}

// apply applies a patch to the document as far as it is known, and returns what changed.
func (x *explaining) apply(c Called, call *report.Call) []change {
	if len(c.Patch) == 0 {
		return nil
	}
	if x.document == nil {
		return x.oneByOne(c.Patch)
	}
	after, changes, err := applyTo(x.document, c.Patch)
	if err != nil {
		severity := report.Info
		if x.o.Documents {
			severity = report.Unknown
		}
		x.find("patch-does-not-apply", severity, fmt.Sprintf("the patch of %s does not apply to the object that was rebuilt: what was between them, "+
			"such as "+
			"defaults and in-tree plug-ins, is not in the event. From here on the object is not known; the changes are shown all the same", call.Webhook))
		x.document, x.outline = nil, x.document
		return x.oneByOne(c.Patch)
	}
	x.document = after
	return changes
}

// oneByOne returns what a patch changed in an object that is not known. Elements of lists have their names as far as the
// outline has them.
func (x *explaining) oneByOne(patch []report.Operation) (all []change) {
	for _, o := range patch {
		one := []report.Operation{o}
		after, changes, err := applyTo(x.outline, one)
		if err != nil {
			all = append(all, byOperations(one)...)
			continue
		}
		x.outline = after
		all = append(all, changes...)
	}
	return all
}

// applyTo applies a patch as the API server does, and returns the object then, and what changed.
func applyTo(document []byte, operations []report.Operation) (after []byte, changes []change, err error) {
	if len(document) == 0 {
		return nil, nil, errors.New("there is no object")
	}
	if after, err = requests.Patched(document, operations); err != nil {
		return nil, nil, err
	}
	was, errBefore := requests.DecodeJSON(document)
	is, errAfter := requests.DecodeJSON(after)
	return after, differences(was, is), errors.Join(errBefore, errAfter)
}

// compare compares the document after the last webhook with what was stored.
func (x *explaining) compare() {
	stored := x.e.stored()
	if x.last < 0 || x.document == nil || stored == nil {
		return
	}
	rebuilt, errRebuilt := requests.DecodeJSON(x.document)
	is, errStored := requests.DecodeJSON(stored)
	if errRebuilt != nil || errStored != nil {
		return
	}
	if reflect.DeepEqual(rebuilt, is) {
		x.equal(is)
		return
	}
	var texts []string
	for _, change := range differences(rebuilt, is) {
		at := cut(x.mask, change.path)
		texts = append(texts, at.String())
		if x.ledger.overlaps(at) {
			x.ledger.record(at, report.Writer{Webhook: apiServer})
		}
	}
	x.find("differs-from-stored", report.Info, "set after the webhooks by the API server or an in-tree plug-in, or before them and not in the event: "+
		strings.Join(texts, ", "))
}

// equal calls the last document exact, unless the audit policy leaves managedFields out: then the event does not have
// all of what was stored.
func (x *explaining) equal(stored any) {
	if !has(stored, path{{key: "metadata"}, {key: "managedFields"}}) {
		x.find("differs-from-stored", report.Info, "all fields that the event has are as they were stored, but it has no metadata.managedFields, "+
			"which omitManagedFields of the audit policy leaves out")
		return
	}
	x.report.Calls[x.last].Known = "exact"
}

func (x *explaining) find(id string, severity report.Severity, message string) {
	x.report.Findings = append(x.report.Findings, finding(id, severity, "", message))
}

// finding returns a finding with the part of the page that is about its id.
func finding(id string, severity report.Severity, object, message string) report.Finding {
	return report.Finding{ID: id, Severity: severity, Object: object, Message: message, Link: "docs/explain.md#" + id}
}
