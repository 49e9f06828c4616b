package expression

import (
	"regexp"
	"slices"
	"testing"

	"usher.dev/usher/test/seed"
)

// TestFindAll: all matches are those that regexp finds.
func TestFindAll(t *testing.T) {
	random := seed.Random(t)
	for _, pattern := range []string{"a", "a*", "a*?", "", "^", "$", "(?m)^a", "(?m)a$", `\ba`, `\Ba?`, `\b`, "a.*c|a", "(a)(b)?|c", "ab|a", "é|(?i)É", "^a", `\Aa*`, `a\z`, "(?s).", "[^a]+", "ab", "(?i)ab|a", "(?U)a+", "(a|ab)(c|bcd)?"} {
		re := regexp.MustCompile(pattern)
		f, err := newAllFinder(re, instructionsOf(pattern))
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			text := ""
			for range random.IntN(12) {
				text += []string{"a", "b", "c", "d", "é", "É", " ", "\n", "\xff", "a", "ab"}[random.IntN(11)]
			}
			n := random.IntN(6) - 1
			reader := &reader{ctx: t.Context()}
			if got, want := f.all(&countedText{reader: reader, text: text}, n), re.FindAllString(text, n); !slices.Equal(got, want) {
				t.Fatalf("%q in %q, at most %d: %q, want %q", pattern, text, n, got, want)
			}
		}
	}
}
