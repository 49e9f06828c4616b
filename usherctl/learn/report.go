package learn

import (
	"context"
	"strings"

	"usher.dev/usher/usherctl/report"
)

// Check checks what a learner has done in the folder of a lesson, and remembers whether it is done.
func (c Course) Check(ctx context.Context, l Lesson, tools Tools) (Verdict, error) {
	if _, err := c.read(l); err != nil {
		return Verdict{}, err
	}
	v, err := l.Check(ctx, c.Folder(l), tools)
	if err != nil {
		return v, err
	}
	return v, c.Mark(l, v.Done())
}

// Begun returns the lessons that were begun.
func (c Course) Begun(all []Lesson) (begun []Lesson) {
	for _, l := range all {
		if c.Progress(l) != "" {
			begun = append(begun, l)
		}
	}
	return begun
}

// ReportOf returns the report of a lesson that was checked. err is why it could not be.
func ReportOf(l Lesson, v Verdict, err error) report.Report {
	subject := report.Subject{Case: l.Name, Source: l.Title}
	switch {
	case err != nil:
		return report.Examined(subject, report.Finding{ID: "not-checked", Severity: report.Unknown, Message: err.Error()})
	case !v.Done():
		return report.Examined(subject, report.Finding{ID: "missing", Severity: report.Error, Message: strings.TrimSpace(v.Missing + "\n" + v.Detail)})
	}
	return report.Examined(subject)
}
