package explain

import (
	"fmt"

	"usher.dev/usher/usherctl/report"
)

// Reports returns a report for each request of the log, the oldest first, and one of what could not be read, if any.
func (l *Log) Reports(o Options) (all []report.Report) {
	last := objects{}
	for i := range l.Events {
		l.Events[i].before = last.before(&l.Events[i])
		all = append(all, Of(&l.Events[i], o))
	}
	for i := range l.Own {
		all = append(all, OfDecision(&l.Own[i]))
	}
	if len(all) == 0 {
		all = append(all, l.nothing())
	}
	if l.Unread+len(l.Torn) > 0 {
		all = append(all, l.unread())
	}
	return all
}

func (l *Log) subject() report.Subject {
	return report.Subject{Source: fmt.Sprintf("%d lines", l.Lines)}
}

// nothing returns the report for logs without a matching event.
func (l *Log) nothing() report.Report {
	return report.Examined(l.subject(), finding("no-event", report.Unknown, l.filter.String(),
		"no completed request of the log matches. Another API server may have served it, the log may have been rotated, "+
			"or the audit policy does not log such requests"))
}

// String names what the filter is for.
func (f Filter) String() string {
	switch {
	case f.Refusal != "":
		return "refusal " + f.Refusal
	case f.UID != "":
		return "uid " + f.UID
	case f.Namespace != "" && f.Name == "":
		return "namespace " + f.Namespace
	case f.Namespace != "":
		return f.Namespace + "/" + f.Name
	}
	return f.Name
}

// unread returns the report of the lines that could not be read.
func (l *Log) unread() report.Report {
	var found []report.Finding
	for _, problem := range l.Problems {
		found = append(found, finding("line-unreadable", report.Unknown, "", problem))
	}
	if more := l.Unread - len(l.Problems); more > 0 {
		found = append(found, finding("line-unreadable", report.Unknown, "", fmt.Sprintf("and %d more lines", more)))
	}
	for _, at := range l.Torn {
		found = append(found, finding("line-incomplete", report.Info, "",
			at.String()+": the last line is incomplete, and was left out: an API server may still be writing it"))
	}
	return report.Examined(l.subject(), found...)
}
