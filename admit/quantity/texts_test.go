package quantity

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzTexts compares what is parsed with the regular expressions that say it.
func FuzzTexts(f *testing.F) {
	safe := regexp.MustCompile(`^[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$`)
	ratio := regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,6})?$`)
	for _, text := range []string{
		"", "+", "-", ".", "1", "-1.5", "+15900m", "16Gi", "1E", "1e", "1e5", "1E-05", "1e+123", "1Ei", "1ei", "1ki", "1k", "1K", "1mi", "1i", "++1", "1 ", "1\n",
		"1.", ".5", "1.5.5", "12345", "1.1234567", "1.123456", "9999.999999", "0123456789012345678901234567890123456789", "01234567890123456789012345678901234567890m",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := isSafe(text), safe.MatchString(text); got != want {
			t.Errorf("isSafe(%q) = %v", text, got)
		}
		_, err := ParseRatio(text)
		if got, want := err == nil || strings.Contains(err.Error(), "below 1"), ratio.MatchString(text); got != want {
			t.Errorf("ParseRatio(%q): %v", text, err)
		}
	})
}
