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
