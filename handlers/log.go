package handlers

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
)

// maxProblems is the maximum number of problems in the log.
const maxProblems = 10

// Log writes one line for each review: what it was about and how it ended, but nothing of the object's content. For a
// denial it logs the step, the field and the type of each error; the message itself is for the user, and may quote an
// annotation. Of failures with the same cause, only some are logged.
func Log(log *logrus.Logger) Observe {
	failures := repeats{most: mostAlike, every: alikeTime}
	lines := sync.Pool{New: func() any { return new(logLine) }}
	return func(route admit.Route, d Decision, took time.Duration) {
		line := lines.Get().(*logLine)
		defer func() {
			line.clear()
			lines.Put(line)
		}()
		if d.Err != nil {
			write, dropped := failures.allow(route.Path+" "+string(d.Outcome)+" "+cause(d.Err), time.Now())
			if !write {
				return
			}
			line.failed(d.Err, dropped)
		}
		if d.Request != nil {
			line.about(d.Request)
		}
		line.ended(route, d, took)
		switch {
		case d.Outcome == Failed || d.Stack != nil:
			line.write(log, logrus.ErrorLevel, "review failed")
		case d.Err != nil:
			line.write(log, logrus.WarnLevel, "review not answered")
		default:
			line.write(log, logrus.InfoLevel, "review")
		}
	}
}

// failed adds why a review was not answered, and how many like it were not logged.
func (l *logLine) failed(err error, dropped int) {
	l.text(logrus.ErrorKey, cause(err))
	if dropped > 0 {
		l.number("repeated", dropped)
	}
}

// about adds what a review was about.
func (l *logLine) about(req *admit.Request) {
	l.text("apiVersion", join(req.Kind.Group, req.Kind.Version))
	l.flag("dryRun", req.DryRun)
	l.text("kind", join(req.Kind.Kind, req.SubResource))
	l.text("name", req.ObjectName())
	l.text("namespace", req.Namespace)
	l.text("operation", string(req.Operation))
	if tolerated := req.ToleratedErrors(); len(tolerated) > 0 {
		l.text("trouble", strings.Join(tolerated, ","))
	}
	l.text("uid", string(req.UID))
	l.text("user", req.UserInfo.Username)
}

// join joins two parts by a slash, unless one is empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "/" + b
}

// ended adds how a review ended.
func (l *logLine) ended(route admit.Route, d Decision, took time.Duration) {
	if changed := d.Result.Changed(); len(changed) > 0 {
		l.text("changed", strings.Join(changed, ","))
	}
	l.number("code", d.Code)
	l.raw("duration", took.String())
	if d.Exceeded.Limit != "" {
		l.text("limit", d.Exceeded.Limit)
	}
	if used := overrides(d.Result.Steps); used != "" {
		l.text("overrides", used)
	}
	if d.Outcome == Denied {
		l.text("problems", problems(d.Result.Problems))
		l.text("refusal", d.Refusal)
	}
	l.text("route", route.Path)
	if d.Stack != nil {
		l.raw("stack", string(d.Stack))
	}
	if d.Untouched != "" {
		l.text("untouched", d.Untouched)
	}
	l.text("verdict", string(d.Outcome))
	if would := wouldDo(d.Result.Steps); would != "" {
		l.text("would", would)
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

// wouldDo returns what the modes of the steps prevented:
// sidecars change; denied-names deny: metadata.name: FieldValueForbidden.
func wouldDo(steps []admit.StepResult) string {
	var texts []string
	for _, s := range steps {
		switch {
		case len(s.Refused) > 0 && s.Mode != admit.Enforce:
			texts = append(texts, s.Name+" deny: "+admit.RuleOf(s.Refused[0]))
		case s.WouldChange:
			texts = append(texts, s.Name+" change")
		}
	}
	return strings.Join(texts, "; ")
}

// LogUnused warns of routes that are unused but still registered, each at most once a minute.
func LogUnused(log *logrus.Logger, now func() time.Time) Observe {
	warnings := repeats{most: 1, every: time.Minute}
	return func(r admit.Route, d Decision, _ time.Duration) {
		if !d.Unchecked(r) {
			return
		}
		if due, _ := warnings.allow(r.Path, now()); due {
			log.WithField("route", r.Path).Warnf("%s %s, but an API server still calls it: what it sends is allowed unchecked; "+
				"usher webhooks apply registers what is needed", r.Path, r.Unused())
		}
	}
}
