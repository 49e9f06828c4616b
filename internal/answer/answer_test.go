package answer

import (
	"bytes"
	"strings"
	"testing"
)

// TestPrint: verdict, warnings, patch and audit annotations.
func TestPrint(t *testing.T) {
	for in, want := range map[string]string{
		`{"response":{"uid":"u","allowed":true}}`:                                                                            "allowed\n",
		`{"response":{"uid":"u","allowed":true,"warnings":["w"],"auditAnnotations":{"b":"2","a":"1"}}}`:                      "allowed\n    warning: w\n    audit: a: 1\n    audit: b: 2\n",
		`{"response":{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0="}}`: "mutated\n    patch:\n      remove  /a\n",
	} {
		var out strings.Builder
		if allowed, err := Print(strings.NewReader(in), &out, Style{}); err != nil || !allowed || out.String() != want {
			t.Errorf("%s: %v %v\n%s\nwant\n%s", in, allowed, err, out.String(), want)
		}
	}
}

// TestShowsNoBinary: what is no answer is shown in short, and not at all if it is no text.
func TestShowsNoBinary(t *testing.T) {
	for in, want := range map[string]string{
		"\x7fELF\x00\x01":           "6 bytes that are not text",
		"404 page":                  "but:\n404 page",
		strings.Repeat("x", 10_000): "... (10000 bytes in all)",
	} {
		if _, err := Print(strings.NewReader(in), &bytes.Buffer{}, Style{}); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 5000 {
			t.Errorf("%q: %.200v", in[:4], err)
		}
	}
}
