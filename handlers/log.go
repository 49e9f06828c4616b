package handlers

import (
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
)

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
		if d.Untouched != "" {
			fields["untouched"] = d.Untouched
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
			entry.WithField("message", d.Response.Result.Message).Info("review")
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
	fields["name"] = nameOf(req)
	fields["user"] = req.UserInfo.Username
	fields["dryRun"] = req.DryRun
	for _, trouble := range req.Troubles() {
		fields["trouble"] = trouble
	}
}

// nameOf is the object's name, or its generateName followed by a star while it has no name.
func nameOf(req *admit.Request) string {
	if req.Name != "" || req.Object == nil {
		return req.Name
	}
	meta := req.Object.Root().Get("metadata")
	if name := meta.Get("name").Text(); name != "" {
		return name
	}
	if prefix := meta.Get("generateName").Text(); prefix != "" {
		return prefix + "*"
	}
	return ""
}
