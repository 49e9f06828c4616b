package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"usher.dev/usher/internal/printable"
)

// Style configures how text is shown.
type Style struct {
	Color bool // for a terminal
}

// The codes of a terminal for colours.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
	Bold   = "1"
)

// Colors are the colours of outcomes.
var Colors = map[string]string{"passed": Green, "failed": Red, "refused": Red, "allowed": Green, "mutated": Cyan, "denied": Red,
	"error": Red, "invalid": Red, "skipped": Yellow, "asked": Yellow, "not judged": Yellow}

// Paint colours text for a terminal.
func (s Style) Paint(color, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// Heading returns a text as a heading.
func (s Style) Heading(text string) string { return s.Paint(Bold, text) }

// Good returns a text as good news.
func (s Style) Good(text string) string { return s.Paint(Green+";"+Bold, text) }

// Bad returns a text as bad news.
func (s Style) Bad(text string) string { return s.Paint(Red+";"+Bold, text) }

// Lines prints each text that is not empty after a label.
func Lines(b *strings.Builder, label string, texts ...string) {
	for _, text := range texts {
		if text != "" {
			fmt.Fprintf(b, "    %s%s\n", label, strings.ReplaceAll(printable.Lines(text), "\n", "\n    "))
		}
	}
}

// Patch prints the operations of a patch.
func Patch(b *strings.Builder, patch []Operation) {
	if len(patch) > 0 {
		b.WriteString("    patch:\n")
	}
	for _, o := range patch {
		fmt.Fprintf(b, "      %s\n", printable.Lines(o.folded("        ")))
	}
}

// AuditAnnotations prints the audit annotations of an answer.
func AuditAnnotations(b *strings.Builder, annotations map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		Lines(b, "audit: ", key+": "+annotations[key])
	}
}
