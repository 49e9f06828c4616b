package report

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"go.yaml.in/yaml/v2"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/printable"
)

// yamlOf returns JSON as YAML; empty if it is none. The parser of YAML, which sigs.k8s.io/yaml reads JSON with, takes as long as all the rest.
func yamlOf(object []byte) string {
	var value any
	if kjson.UnmarshalCaseSensitivePreserveInts(object, &value) != nil {
		return ""
	}
	text, _ := yaml.Marshal(value)
	return string(text)
}

// Diff is the unified diff of two JSON objects as YAML; empty if they are the same.
func Diff(before, after []byte, style Style) string {
	return style.paintDiff(printable.Lines(DiffNamed("before", "after", before, after)))
}

// DiffNamed is Diff for JSON values of other names, in plain text.
func DiffNamed(from, to string, before, after []byte) string {
	return udiff.Unified(from, to, yamlOf(before), yamlOf(after))
}

// paintDiff colours a unified diff.
func (s Style) paintDiff(diff string) string {
	if !s.Color {
		return diff
	}
	var b strings.Builder
	for line := range strings.Lines(diff) {
		text, end := strings.CutSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "+"):
			text = s.Paint(answer.Green, text)
		case strings.HasPrefix(line, "-"):
			text = s.Paint(answer.Red, text)
		case strings.HasPrefix(line, "@@"):
			text = s.Paint(answer.Cyan, text)
		}
		b.WriteString(text)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
