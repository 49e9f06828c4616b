package config

import (
	"strings"
	"testing"
)

// TestVersion: apiVersion and kind may be left out, and have no other values.
func TestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                       "",
		"apiVersion: usher.dev/v1": "",
		"{apiVersion: usher.dev/v1, kind: Policy}": "",
		"apiVersion: usher.dev/v2":                 `apiVersion: Invalid value: "usher.dev/v2": must be usher.dev/v1, the only version that this usher reads`,
		"apiVersion: null":                         "apiVersion: Invalid value: null: must be usher.dev/v1",
		"apiVersion: [usher.dev/v1]":               "apiVersion: Invalid value: ",
		"kind: Case":                               `kind: Invalid value: "Case": must be Policy in this file`,
		"apiversion: usher.dev/v1":                 "apiversion: Forbidden: unknown field; did you mean apiVersion?",
	} {
		t.Run(text, func(t *testing.T) {
			policy, problems := Parse([]byte(text), Schema{})
			switch {
			case want == "" && (len(problems) > 0 || len(policy.Sections()) > 0):
				t.Errorf("%v", problems)
			case want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want)):
				t.Errorf("%v, want %s", problems, want)
			}
		})
	}
}
