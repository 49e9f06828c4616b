package report

import (
	"strings"
	"testing"
)

// TestFindings: the worst is first, what several objects share is printed once, with all that corrects it, and nothing that a terminal would obey.
func TestFindings(t *testing.T) {
	of := func(id string, severity Severity, object, message string) Finding {
		return Finding{ID: id, Severity: severity, Object: object, Message: message, Fix: "kubectl " + id, Link: "docs#" + id}
	}
	reports := []Report{
		{Findings: []Finding{of("a", Error, "one", "m"), of("w", Warning, "one", "n")}},
		{Findings: []Finding{of("a", Error, "two", "m"), of("a", Error, "three", "other\x1b[2J")}},
		{Findings: []Finding{of("u", Unknown, "four", "o")}},
		{Findings: []Finding{of("w", Warning, "five", "n"), {ID: "w", Severity: Warning, Object: "six", Message: "n", Fix: "kubectl other", Look: "kubectl get"}}},
	}
	var b strings.Builder
	Findings(&b, reports, Style{})
	const want = `  error: a: one,
    two
    m
    fix:  kubectl a
    see:  docs#a

  error: a: three
    other` + "\uFFFD" + `[2J
    fix:  kubectl a
    see:  docs#a

  unknown: u: four
    o
    fix:  kubectl u
    see:  docs#u

  warning: w: one,
    five,
    six
    n
    fix:  kubectl w
    fix:  kubectl other
    look: kubectl get
    see:  docs#w

`
	if b.String() != want {
		t.Errorf("got:\n%s", b.String())
	}
}

// TestExaminedTitles: a CI system shows which webhook it is.
func TestExaminedTitles(t *testing.T) {
	for _, c := range []struct {
		subject Subject
		want    string
	}{
		{Subject{Kind: "MutatingWebhookConfiguration", Name: "c", Webhook: "w"}, "MutatingWebhookConfiguration c, webhook w"},
		{Subject{Kind: "Cluster", Source: "files"}, "Cluster  (files)"},
	} {
		if got := c.subject.title(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
