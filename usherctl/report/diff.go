package report

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/printable"
)

func yamlOf(object []byte) string {
	text, _ := yaml.JSONToYAML(object)
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
