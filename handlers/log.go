package handlers

import (
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
)

// maxField is the maximum length in characters of a text in the log: a caller may send a name of megabytes.
const maxField = 500

// maxProblems is the maximum number of problems in the log.
const maxProblems = 10

// Log writes one line for each review: what it was about and how it ended, but nothing of the object's content. For a
// denial it logs the step, the field and the type of each error; the message itself is for the user, and may quote an
// annotation. Of failures with the same cause, only some are logged.
func Log(log *logrus.Logger) Observe {
	var failures repeats
	return func(route Route, d Decision, took time.Duration) {
		fields := logrus.Fields{"route": route.Path, "verdict": string(d.Outcome), "code": d.Code, "duration": took.String()}
		if d.Err != nil {
			write, dropped := failures.allow(route.Path+" "+string(d.Outcome)+" "+cause(d.Err), time.Now())
			if !write {
				return
			}
			if dropped > 0 {
				fields["repeated"] = dropped
			}
			fields[logrus.ErrorKey] = cause(d.Err)
		}
		if d.Request != nil {
			describe(fields, d.Request)
		}
		conclusion(fields, d)
		for name, value := range fields {
			if text, ok := value.(string); ok {
				fields[name] = admit.Printable(admit.Shorten(text, maxField))
			}
		}
		entry := log.WithFields(fields)
		if d.Stack != nil {
			entry = entry.WithField("stack", string(d.Stack))
		}
		switch {
		case d.Outcome == Failed || d.Stack != nil:
			entry.Error("review failed")
		case d.Err != nil:
			entry.Warn("review not answered")
		default:
			entry.Info("review")
		}
	}
}

// conclusion adds how a review ended.
func conclusion(fields logrus.Fields, d Decision) {
	if changed := d.Result.Changed(); len(changed) > 0 {
		fields["changed"] = strings.Join(changed, ",")
	}
	if used := overrides(d.Result.Steps); used != "" {
		fields["overrides"] = used
	}
	for _, s := range d.Result.Steps {
		if would := wouldDo(s); would != "" {
			fields["would"] = s.Name + " " + would
		}
	}
	if d.Untouched != "" {
		fields["untouched"] = d.Untouched
	}
	if d.Excess.Limit != "" {
		fields["limit"] = d.Excess.Limit
	}
	if d.Outcome == Denied {
		fields["problems"], fields["refusal"] = problems(d.Result.Problems), d.Refusal
	}
}

func describe(fields logrus.Fields, req *admit.Request) {
	fields["uid"] = string(req.UID)
	fields["operation"] = string(req.Operation)
	fields["apiVersion"] = schema.GroupVersion{Group: req.Kind.Group, Version: req.Kind.Version}.String()
	fields["kind"] = strings.TrimSuffix(req.Kind.Kind+"/"+req.SubResource, "/")
	fields["namespace"] = req.Namespace
	fields["name"] = req.ObjectName()
	fields["user"] = req.UserInfo.Username
	fields["dryRun"] = req.DryRun
	if troubles := req.Troubles(); len(troubles) > 0 {
		fields["trouble"] = strings.Join(troubles, ",")
	}
}

// cause returns the text of our own fault.
func cause(err error) string { return admit.Shorten(err.Error(), maxField) }

// problems returns the step, the field and the type of each problem: denied-names: metadata.name: FieldValueForbidden.
func problems(all []admit.Problem) string {
	var texts []string
	for _, p := range all[:min(len(all), maxProblems)] {
		texts = append(texts, p.Step+": "+admit.RuleOf(p.Error))
	}
	if more := len(all) - maxProblems; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// overrides returns the steps whose modes an override set, with the mode and the override: denied-names: warn (legacy).
func overrides(steps []admit.StepResult) string {
	var texts []string
	for _, s := range steps {
		if s.Override != nil {
			texts = append(texts, s.Name+": "+string(s.Mode)+" ("+s.Override.Name+")")
		}
	}
	return strings.Join(texts, ", ")
}

// wouldDo returns what a step's mode prevented, or "".
func wouldDo(s admit.StepResult) string {
	switch {
	case len(s.Refused) > 0 && s.Mode != admit.Enforce:
		return "deny: " + admit.RuleOf(s.Refused[0])
	case s.WouldChange:
		return "change"
	}
	return ""
}
