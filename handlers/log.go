package handlers

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// maxField is the maximum length in characters of a text in the log: a caller may send a name of megabytes.
const maxField = 500

// maxPath is the maximum length in characters of a field path in the log, that of a name; maxProblems is the maximum
// number of problems.
const maxPath, maxProblems = 253, 10

// Log writes one line for each review: what it was about and how it ended, but nothing of the object's content. For a
// denial it logs the step, the field and the type of each error; the message itself is for the user, and may quote an
// annotation.
func Log(log *logrus.Logger) Observe {
	return func(route Route, d Decision, took time.Duration) {
		fields := logrus.Fields{"route": route.Path, "verdict": string(d.Outcome), "code": d.Code, "duration": took.String()}
		if d.Request != nil {
			describe(fields, d.Request)
		}
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
		for name, value := range fields {
			if text, ok := value.(string); ok {
				fields[name] = admit.Shorten(text, maxField)
			}
		}
		entry := log.WithFields(fields)
		if d.Stack != nil {
			entry = entry.WithField("stack", string(d.Stack))
		}
		switch {
		case d.Outcome == Failed || d.Stack != nil:
			entry.WithField(logrus.ErrorKey, cause(d.Err)).Error("review failed")
		case d.Err != nil:
			entry.WithField(logrus.ErrorKey, cause(d.Err)).Warn("review not answered")
		case d.Outcome == Denied:
			entry.WithField("problems", problems(d.Result.Problems)).Info("review")
		default:
			entry.Info("review")
		}
	}
}

func describe(fields logrus.Fields, req *admit.Request) {
	fields["uid"] = string(req.UID)
	fields["operation"] = string(req.Operation)
	fields["kind"] = strings.TrimSuffix(req.Kind.Kind+"/"+req.SubResource, "/")
	fields["namespace"] = req.Namespace
	fields["name"] = req.ObjectName()
	fields["user"] = req.UserInfo.Username
	fields["dryRun"] = req.DryRun
	if troubles := req.Troubles(); len(troubles) > 0 {
		fields["trouble"] = strings.Join(troubles, ",")
	}
}

// cause returns the text of our own fault, or nil if there is none.
func cause(err error) any {
	if err == nil {
		return nil
	}
	return admit.Shorten(err.Error(), maxField)
}

// problems returns the step, the field and the type of each problem: denied-names: metadata.name: FieldValueForbidden.
func problems(all []admit.Problem) string {
	var texts []string
	for _, p := range all[:min(len(all), maxProblems)] {
		texts = append(texts, p.Step+": "+rule(p.Error))
	}
	if more := len(all) - maxProblems; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// opaque matches a path up to an annotation, or to an entry of a ConfigMap or Secret. The rest of such a path is part
// of the content.
var opaque = regexp.MustCompile(`^(.*?\bannotations|data|stringData)\[[^\]]*\]`)

// rule returns the path and the type of a problem, without values.
func rule(p *field.Error) string {
	path := p.Field
	if found := opaque.FindString(path); found != "" {
		path = found
	}
	return admit.Shorten(path, maxPath) + ": " + string(p.Type)
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
		return "deny: " + rule(s.Refused[0])
	case s.WouldChange:
		return "change"
	}
	return ""
}
