package report

import (
	"regexp"
	"strings"
)

// Severity says how bad a finding is.
type Severity string

// The severities. An Info is worth knowing, and no fault.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
	Unknown Severity = "unknown" // what could not be looked at, which is never fine
)

// Finding is something that is wrong, or that could not be looked at.
type Finding struct {
	// ID names the kind of finding, such as "ca-bundle-mismatch".
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// Object is the object concerned, such as "ValidatingWebhookConfiguration usher, webhook validate-pods.usher.dev".
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
	// Webhooks are all webhooks that the finding is about, if its one cause concerns several: each of them has it.
	Webhooks []string `json:"webhooks,omitempty"`
	// Diff is a unified diff of what should be and what is.
	Diff string `json:"diff,omitempty"`
	// Fix is one command that corrects it.
	Fix string `json:"fix,omitempty"`
	// Look is a command that shows more, or what a person has to correct, where none corrects it.
	Look string `json:"look,omitempty"`
	// Link is the page that describes it, with the anchor.
	Link string `json:"link,omitempty"`
}

// plainWord matches what is one word of a shell as it is.
var plainWord = regexp.MustCompile(`^[\w./:=,@%+-]+$`)

// Word returns a text as one word of a shell, for a command that is printed: names in files may be anything.
func Word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// List joins words for a sentence: "a, b and c".
func List(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
