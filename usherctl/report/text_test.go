package report

import (
	"strings"
	"testing"

	"usher.dev/usher/internal/answer"
)

// On a terminal a diff is coloured line by line; elsewhere not a single escape is printed.
func TestDiffColours(t *testing.T) {
	before, after := []byte(`{"a":"1","b":"2"}`), []byte(`{"a":"1","b":"3"}`)
	plain := Diff(before, after, Style{})
	if want := "--- before\n+++ after\n@@ -1,2 +1,2 @@\n a: \"1\"\n-b: \"2\"\n+b: \"3\"\n"; plain != want {
		t.Errorf("plain:\n%s\nwant:\n%s", plain, want)
	}
	coloured := Diff(before, after, Style{Style: answer.Style{Color: true}})
	if !strings.Contains(coloured, "\x1b[31m-b: \"2\"\x1b[0m\n") || !strings.Contains(coloured, "\x1b[32m+b: \"3\"\x1b[0m\n") || !strings.Contains(coloured, "\n a: \"1\"\n") {
		t.Errorf("coloured:\n%q", coloured)
	}
	if Diff(before, before, Style{Style: answer.Style{Color: true}}) != "" {
		t.Error("a diff of nothing")
	}
}

func TestWebhooksSummary(t *testing.T) {
	one, two := Webhook{}, Webhook{Called: true}
	for want, all := range map[string][]Webhook{
		"0 of 1 webhook is called": {one}, "1 of 1 webhook is called": {two}, "0 of 2 webhooks are called": {one, one}, "1 of 2 webhooks is called": {one, two},
	} {
		if got := webhooksSummary(all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestProblems: each problem has a line of its own, which ends as in the message that the API server shows.
func TestProblems(t *testing.T) {
	var out strings.Builder
	steps := []Step{{Name: "a"}, {Name: "b", Refused: []string{"f: bad; worse", "g: no"}}, {Name: "c", Refused: []string{"h: no"}}}
	Text(&out, Report{Sections: Sections{Calls: []Call{{Steps: steps, Message: "b: f: bad; worse; b: g: no; c: h: no (refusal 1)"}, {Steps: steps, Message: "else"}}}}, Style{})
	if want := "    message: b: f: bad; worse;\n             b: g: no;\n             c: h: no (refusal 1)\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
	if !strings.Contains(out.String(), "    message: else\n") {
		t.Errorf("not as it is: %s", &out)
	}
}
