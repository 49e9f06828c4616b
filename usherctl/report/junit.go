package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"iter"
	"strings"

	"usher.dev/usher/internal/printable"
)

// junitSuites, junitSuite, junitCase and junitProblem are the elements of a JUnit report, in the dialect that CI systems
// read.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Skipped *struct{}     `xml:"skipped"`
	Error   *junitProblem `xml:"error"`
	Failure *junitProblem `xml:"failure"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnit prints reports as one JUnit test suite: a test case for each, with a failure for a refusal or a finding, and an
// error for what could not be judged.
func JUnit(to io.Writer, suite string, reports iter.Seq[Report]) error {
	s := junitSuite{Name: suite}
	for r := range reports {
		s.Tests++
		c := junitCase{Class: suite, Name: printable.Lines(cmp.Or(r.Case, r.title()))} // a case has no line, which moves
		switch r.Exit() {
		case Unjudged:
			s.Errors++
			c.Error = r.junitProblem()
		case Refused:
			s.Failures++
			c.Failure = r.junitProblem()
		default:
			if r.Verdict == Skipped {
				s.Skipped++
				c.Skipped = &struct{}{}
			}
			for _, what := range r.Unjudged {
				c.Out += printable.Lines("not judged: "+what) + "\n"
			}
			for _, field := range r.Unknown {
				c.Out += printable.Lines("warning: "+field+refusedByKubectl) + "\n"
			}
		}
		s.Cases = append(s.Cases, c)
	}
	raw, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{s}}, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(to, "%s%s\n", xml.Header, raw)
	}
	return err
}

// junitProblem returns the first reason in short, and the whole report as text.
func (r Report) junitProblem() *junitProblem {
	var text strings.Builder
	Text(&text, r, Style{})
	p := &junitProblem{Type: string(r.Verdict), Text: text.String()}
	reason, finding := r.reason()
	p.Message = printable.Lines(cmp.Or(reason, string(r.Verdict)))
	p.Type = cmp.Or(finding, p.Type)
	return p
}

// reason returns the first reason for a verdict, with the id of the finding that it is, if it is one; "" if there is none.
func (r Report) reason() (text, finding string) {
	for _, f := range r.Findings {
		if f.Severity != Info {
			return f.Message, f.ID
		}
	}
	if i := unknownWebhook(r.Webhooks); i >= 0 {
		return "of webhook " + r.Webhooks[i].Name + " it is not known whether it is called: " + r.Webhooks[i].Why, ""
	}
	switch {
	case len(r.Unjudged) > 0 && r.Verdict == NotJudged:
		return r.Unjudged[0], ""
	case len(r.Invalid) > 0 && r.Verdict == Invalid:
		return r.Invalid[0], ""
	}
	for _, plugin := range r.Plugins {
		if plugin.Message != "" {
			return plugin.Message, ""
		}
	}
	c, _ := r.Decisive()
	return c.Message, ""
}
