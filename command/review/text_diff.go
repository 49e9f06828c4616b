package review

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/internal/printable"
)

// String shows an operation on one line.
func (o Operation) String() string {
	if o.From != "" {
		return fmt.Sprintf("%-7s %s from %s", o.Op, o.Path, o.From)
	}
	return strings.TrimRight(fmt.Sprintf("%-7s %s %s", o.Op, o.Path, o.Value), " ")
}

// folded shows an operation that adds a long list with an element a line.
func (o Operation) folded(indent string) string {
	var elements []json.RawMessage
	line := o.String()
	if len(line) <= 120 || json.Unmarshal(o.Value, &elements) != nil {
		return line
	}
	line = fmt.Sprintf("%-7s %s [", o.Op, o.Path)
	for _, e := range elements {
		line += "\n" + indent + string(e)
	}
	return line + " ]"
}

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
			text = s.paint(green, text)
		case strings.HasPrefix(line, "-"):
			text = s.paint(red, text)
		case strings.HasPrefix(line, "@@"):
			text = s.paint(cyan, text)
		}
		b.WriteString(text)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
