package probe

import (
	"fmt"
	"io"
	"strings"

	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/report"
)

// consequence says what the failure policy makes of a failed call.
func (h *Hook) consequence() string {
	switch h.FailurePolicy {
	case "Fail":
		return "With failurePolicy Fail, requests that it is called for are refused while a call fails."
	case "Ignore":
		return "With failurePolicy Ignore, objects are stored unchanged and unchecked while a call fails, without a notice."
	}
	return ""
}

// Report returns a result in the form of the other tools.
func (res Result) Report() report.Report {
	kind, name := "Webhook", res.Hook.Name
	r := report.Report{Verdict: report.Passed, Subject: report.Subject{Case: res.Test.Name + " of " + name, Kind: kind, Name: name,
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
	for _, f := range res.Failures {
		for text := range strings.Lines(f.Text) {
			fmt.Fprintf(&b, "       %s\n", printable.Line(strings.TrimSuffix(text, "\n")))
		}
	}
	for _, text := range res.Decisions {
		fmt.Fprintf(&b, "       %s\n", printable.Line(text))
	}
	if len(res.Failures) > 0 {
		fmt.Fprintf(&b, "       why:  %s %s\n", res.Test.Why, res.Hook.consequence())
		for _, from := range res.Test.From {
			fmt.Fprintf(&b, "       see:  %s\n", from)
		}
		if shown := res.Failures[0].Exchange; shown != nil {
			fmt.Fprintf(&b, "       look: %s\n", printable.Lines(res.look(shown, save)))
		}
	}
	_, _ = io.WriteString(to, b.String())
}

// longest is the length of a command that is printed.
const longest = 500

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
	if command == "" || len(command) > longest {
		return fmt.Sprintf("a request of %d bytes; with --save DIR it is in a file, and the command for curl is here", len(x.Body))
	}
	return command
}

// tally counts results.
type tally struct{ passed, failed, notJudged, skipped int }

func (t *tally) add(res Result) {
	switch {
	case len(res.Failures) > 0:
		t.failed++
	case res.NotJudged != "":
		t.notJudged++
	case res.Skipped != "":
		t.skipped++
	default:
		t.passed++
	}
}

func (t tally) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{t.passed, "passed"}, {t.failed, "failed"}, {t.notJudged, "not judged"}, {t.skipped, "skipped"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return fmt.Sprintf("%d tests: %s", t.passed+t.failed+t.notJudged+t.skipped, strings.Join(parts, ", "))
}
