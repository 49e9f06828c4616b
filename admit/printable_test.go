package admit

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "web-1": "web-1", "größe": "größe", "a\nb": `a\nb`, "\x1b[31mred": `\x1b[31mred`, "\u202euser": `\u202euser`, "\xff\xfe": `\xff\xfe`,
		"a\u200bb": `a\u200bb`, "\u0085": `\u0085`, "\x7f": `\x7f`, "\ufffd": "\ufffd", `a\b`: `a\b`, "\u2028": `\u2028`, "\x00": `\x00`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// FuzzPrintable: whatever goes in, what comes out is valid and printable, and a text that is so already stays.
func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[0m\u2066\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := Printable(text)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Errorf("%q becomes %q", text, got)
		}
		if Printable(got) != got {
			t.Errorf("%q changes again, to %q", got, Printable(got))
		}
	})
}
