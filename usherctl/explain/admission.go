package explain

import (
	"maps"
	"slices"
	"strings"

	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/usherctl/report"
)

// admission adds what the answer and the annotations say of webhooks: who refused, and the notes of each.
func (x *explaining) admission() {
	message := x.e.ResponseStatus.Message
	if found := denied.FindStringSubmatch(message); found != nil {
		call := x.call(found[1])
		call.Outcome, call.Code, call.Reason, call.Message = "denied", x.e.ResponseStatus.Code, x.e.ResponseStatus.Reason, message
		if id := refusalID.FindAllStringSubmatch(message, -1); len(id) > 0 {
			call.Refusal = id[len(id)-1][1]
		}
	}
	if found := notCalled.FindStringSubmatch(message); found != nil {
		call := x.call(found[1])
		call.Outcome, call.Code, call.Message = "error", x.e.ResponseStatus.Code, message
	}
	if refusal, ok := ParseRefusal(message); ok && refusal.By == ByPatch {
		x.patchFailed(refusal.Name, message)
	}
	x.policies()
	notes := x.e.notes()
	for _, webhook := range slices.Sorted(maps.Keys(notes)) {
		call := x.call(webhook)
		call.Audit = notes[webhook]
		if id := notes[webhook]["refusal"]; id != "" {
			call.Refusal = id
		}
	}
	if x.e.Annotations[truncated] == "true" {
		x.find("event-truncated", report.Unknown, "the API server left the objects out of the event, because it was larger than "+
			"--audit-log-truncate-max-event-size")
	}
}

// patchFailed notes whose patch has failed: of the webhook that the answer names, or else of the last that was called, as the API server calls
// no other then.
func (x *explaining) patchFailed(webhook, message string) {
	last := len(x.report.Calls) - 1
	for last >= 0 && x.report.Calls[last].Round == 0 {
		last--
	}
	if webhook == "" && last < 0 {
		return
	}
	if webhook == "" {
		webhook = x.report.Calls[last].Webhook
	}
	call := x.call(webhook)
	call.Outcome, call.Code, call.Message, call.After, call.Known = "error", x.e.ResponseStatus.Code, message, nil, ""
}

// call returns the last call of a webhook; one is added for a validating webhook, whose calls are not in the event.
func (x *explaining) call(webhook string) *report.Call {
	for i := range slices.Backward(x.report.Calls) {
		if x.report.Calls[i].Webhook == webhook {
			return &x.report.Calls[i]
		}
	}
	x.report.Calls = append(x.report.Calls, report.Call{Webhook: webhook, Outcome: "allowed"})
	return &x.report.Calls[len(x.report.Calls)-1]
}

// policies adds the ValidatingAdmissionPolicies that found something.
func (x *explaining) policies() {
	failures, err := x.e.policyFailures()
	if err != nil {
		x.find("annotation-unreadable", report.Unknown, err.Error())
	}
	for _, f := range failures {
		outcome := "audited"
		if slices.Contains(f.ValidationActions, "Warn") {
			outcome = "warned"
		}
		message := ""
		if x.o.ShowValues {
			message = f.Message
		}
		x.report.Calls = append(x.report.Calls, report.Call{Webhook: "ValidatingAdmissionPolicy " + f.Policy,
			Configuration: "binding " + f.Binding, Outcome: outcome, Message: message})
	}
	if found := policyNote.FindStringSubmatch(x.e.ResponseStatus.Message); found != nil {
		binding := ""
		if found[2] != "" { // none: the policy itself could not be configured
			binding = "binding " + found[2]
		}
		x.report.Calls = append(x.report.Calls, report.Call{Webhook: "ValidatingAdmissionPolicy " + found[1],
			Configuration: binding, Outcome: "denied", Code: x.e.ResponseStatus.Code, Message: x.e.ResponseStatus.Message})
	}
}

// usherNotes are the audit annotations of usher. They, and those that begin with the name of a step, never have a value of
// an object.
var usherNotes = []string{"changed", "denied-by", "refusal", "would-deny.", "would-change.", "override.", "trouble."}

// hide hides values in all texts.
func (x *explaining) hide() {
	r := &x.report
	if slices.ContainsFunc(r.Calls, func(c report.Call) bool { return c.Message == r.Request.Message }) {
		r.Request.Message = ""
	}
	r.Request.Message = maskText(x.mask, r.Request.Message)
	for _, c := range r.Calls {
		for key := range c.Audit {
			if !x.showsNote(c.Webhook, key) {
				c.Audit[key] = mask.Hidden
			}
		}
	}
	hideTexts(x.mask, r)
}

// showsNote reports whether an audit annotation is shown; those of others than usher may have any value of the object.
func (x *explaining) showsNote(webhook, key string) bool {
	step, _, _ := strings.Cut(key, ".")
	return x.o.ShowValues || strings.HasSuffix(webhook, ".usher.dev") && (slices.Contains(x.o.Steps, step) ||
		slices.ContainsFunc(usherNotes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }))
}
