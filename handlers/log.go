package handlers

import (
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
)

// maxField is how many characters of a text go into the log: a caller may send a name of megabytes.
const maxField = 500

// Log writes one line for each review: what it was about and how it ended, never what the object says.
func Log(log *logrus.Logger) Observe {
	return func(route Route, d Decision, took time.Duration) {
		fields := logrus.Fields{"route": route.Path, "verdict": string(d.Outcome), "code": d.Code, "duration": took.String()}
		if d.Request != nil {
			describe(fields, d.Request)
		}
		if changed := d.Result.Changed(); len(changed) > 0 {
			fields["changed"] = strings.Join(changed, ",")
		}
		for _, s := range d.Result.Steps {
			if would := wouldDo(s); would != "" {
				fields["would"] = s.Name + " " + would
			}
		}
		if d.Untouched != "" {
			fields["untouched"] = d.Untouched
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
			entry.WithError(d.Err).Error("review failed")
		case d.Err != nil:
			entry.WithError(d.Err).Warn("review not answered")
		case d.Outcome == Denied:
			entry.WithField("message", admit.Shorten(d.Response.Result.Message, maxField)).Info("review")
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

// wouldDo says what a step's mode kept it from doing.
func wouldDo(s admit.StepResult) string {
	switch {
	case len(s.Refused) > 0 && s.Mode != admit.Enforce:
		return "deny: " + s.Refused[0].Error()
	case s.WouldChange:
		return "change"
	}
	return ""
}
