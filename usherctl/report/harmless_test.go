package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// hostile are characters that move the cursor of a terminal, clear it, or turn the direction of a text.
const hostile = "\x1b[2J\x9b\u009b1A\x7f\r\b\u202e\u2066\u200f\u061c\u2028\u2029\u0085"

// TestHarmless: no report has a character that a terminal obeys, as text or as JSON, and JSON keeps the text.
func TestHarmless(t *testing.T) {
	r := Report{Subject: Subject{Kind: hostile, Name: hostile, Operation: hostile, Source: hostile, Of: hostile}, Verdict: Denied, Hint: hostile,
		Findings: []Finding{{ID: "x", Severity: Error, Object: hostile, Message: hostile, Diff: "+" + hostile, Fix: hostile, Link: hostile}},
		Sections: Sections{Unknown: []string{hostile}, Unjudged: []string{hostile}, Warnings: []string{hostile},
			NotCalled: []NotCalled{{"/p", hostile}}, Webhooks: []Webhook{{Name: hostile, Configuration: hostile, Filter: hostile, Why: hostile, Fix: hostile}},
			Calls: []Call{{Path: "/validate-pods", Outcome: "denied", Message: hostile, Untouched: hostile, Warnings: []string{hostile},
				Steps: []Step{{Name: "a", Refused: []string{hostile}, Why: []string{hostile}}}, Patch: []Operation{{Op: "add", Path: "/" + hostile, From: hostile}}}}},
		Before: json.RawMessage(`{"a":"b"}`), After: json.RawMessage(`{"a":"` + "\u202e\u009b" + `"}`)}
	allowed := r
	allowed.Verdict = Allowed
	var text, raw bytes.Buffer
	for _, report := range []Report{r, allowed} {
		for _, style := range []Style{{}, {Patch: true}} {
			Text(&text, report, style)
		}
	}
	if err := WriteJSON(&raw, []Report{r}); err != nil {
		t.Fatal(err)
	}
	for name, printed := range map[string]string{"text": text.String(), "JSON": raw.String()} {
		if i := strings.IndexFunc(printed, steersTerminal); i >= 0 {
			t.Errorf("%s has %q", name, printed[max(0, i-20):min(len(printed), i+20)])
		}
	}
	var back []Report
	if err := json.Unmarshal(raw.Bytes(), &back); err != nil || back[0].Hint != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("%v: %+v", err, back)
	}
}

// steersTerminal reports whether a terminal obeys a character.
func steersTerminal(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || strings.ContainsRune("\u2028\u2029\u061c\u200e\u200f", r) || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069')
}
