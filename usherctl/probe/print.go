package probe

import (
	"fmt"
	"io"
	"strings"

	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/report"
)

// consequences say what a failure policy makes of a failed call.
var consequences = map[string]string{
	"Fail":   " With failurePolicy Fail, requests that it is called for are refused while a call fails.",
	"Ignore": " With failurePolicy Ignore, objects are stored unchanged and unchecked while a call fails, without a notice.",
}

// failsCall reports whether the failure of a test is a failed call of the API server.
func (f Failure) failsCall(of Test) bool {
	if f.Exchange == nil {
		return of.Name == "certificate"
	}
	sent, err := ReadReview(f.Exchange.Body)
	return err == nil && sent.request() != nil && f.Exchange.before == "" && (of.ofV1 || f.Exchange.read() == nil)
}

// Report returns a result in the form of the other tools.
func (res Result) Report() report.Report {
	name := res.Hook.Name
	r := report.Report{Verdict: report.Passed, Subject: report.Subject{Case: res.Test.Name + " of " + name, Kind: "Webhook", Name: name,
		Webhook: res.Hook.Configuration}}
	for _, f := range res.Failures {
		finding := report.Finding{ID: res.Test.Name, Severity: report.Error, Object: name, Message: f.Text, Link: res.Test.From[0]}
		if f.Exchange != nil {
			finding.Look = f.Exchange.Curl(res.Hook.URL, "")
		}
		r.Findings = append(r.Findings, finding)
	}
	switch {
	case len(res.Failures) > 0:
		r.Verdict, r.Hint = report.Failed, res.Test.Why
	case res.NotJudged != "":
		r.Verdict, r.Unjudged = report.NotJudged, []string{res.NotJudged}
	case res.Skipped != "":
		r.Verdict, r.Hint = report.Skipped, res.Skipped
	}
	return r
}

// print prints a result: a line, and for a failure the request that shows it and why it matters.
func (res Result) print(to io.Writer, style report.Style, save string) {
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "%s %-16s %s\n", label, res.Test.Name, printable.Line(text)) }
	switch {
	case len(res.Failures) > 0:
		line(style.Bad("FAIL"), res.Test.Does)
	case res.NotJudged != "":
		line(style.Bad("????"), "not judged: "+res.NotJudged)
	case res.Skipped != "":
		line("skip", res.Skipped)
	default:
		line(style.Good("ok  "), res.Test.Does)
	}
	texts, consequence := []string{}, ""
	for _, f := range res.Failures {
		texts = append(texts, strings.Split(f.Text, "\n")...)
		if f.failsCall(res.Test) {
			consequence = consequences[res.Hook.FailurePolicy]
		}
	}
	for _, text := range append(texts, res.Decisions...) {
		fmt.Fprintf(&b, "       %s\n", printable.Line(text))
	}
	if len(res.Failures) > 0 {
		fmt.Fprintf(&b, "       why:  %s%s\n", res.Test.Why, consequence)
		for _, from := range res.Test.From {
			fmt.Fprintf(&b, "       see:  %s\n", from)
		}
		if shown := res.Failures[0].Exchange; shown != nil {
			fmt.Fprintf(&b, "       look: %s\n", printable.Lines(res.look(shown, save)))
		}
	}
	_, _ = io.WriteString(to, b.String())
}

// look returns how to see an exchange oneself: a command for curl, with the body in a file of a directory if there is one.
func (res Result) look(x *Exchange, save string) string {
	if save != "" && len(x.Body) > 0 {
		file, err := x.saved(save, res)
		if err != nil {
			return err.Error()
		}
		return x.Curl(res.Hook.URL, file)
	}
	command := x.Curl(res.Hook.URL, "")
	if command == "" {
		return fmt.Sprintf("a request of %d bytes; with --save DIR it is in a file, and the command for curl is here", len(x.Body))
	}
	return command
}
