package printable

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "web-1": "web-1", "größe": "größe", "a\nb": `a\nb`, "\x1b[31mred": `\x1b[31mred`, "\u202euser": `\u202euser`, "\xff\xfe": `\xff\xfe`,
		"a\u200bb": `a\u200bb`, "\u0085": `\u0085`, "\x7f": `\x7f`, "\ufffd": "\ufffd", `a\b`: `a\b`, "\u2028": `\u2028`, "\x00": `\x00`,
	} {
		if got := Line(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// FuzzLine: whatever goes in, what comes out is valid and printable, and a text that is so already stays.
func FuzzLine(f *testing.F) {
	f.Add("a\x1b[0m\u2066\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := Line(text)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Errorf("%q becomes %q", text, got)
		}
		if Line(got) != got {
			t.Errorf("%q changes again, to %q", got, Line(got))
		}
	})
}
