// Package configtest reads policies in tests of steps and their sections.
package configtest

import (
	"strings"
	"testing"

	"usher.dev/usher/config"
)

// Parse returns the policy of a text, which must be valid.
func Parse(t testing.TB, text string, sections ...config.Declared) *config.Policy {
	t.Helper()
	policy, problems := config.Parse([]byte(text), sections)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return policy
}

// WantProblems fails the test unless a policy has as many problems as are wanted, and each of these is in one of them.
func WantProblems(t testing.TB, text string, want []string, sections ...config.Declared) {
	t.Helper()
	_, problems := config.Parse([]byte(text), sections)
	if len(problems) != len(want) {
		t.Errorf("%d problems, want %d: %v", len(problems), len(want), problems)
	}
	for _, one := range want {
		if !Mentioned(problems, one) {
			t.Errorf("no problem says %q: %v", one, problems)
		}
	}
}

// Mentioned reports whether a text is in one of the problems.
func Mentioned(problems []error, text string) bool {
	for _, p := range problems {
		if strings.Contains(p.Error(), text) {
			return true
		}
	}
	return false
}
