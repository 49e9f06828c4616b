package command

import (
	"regexp"
	"strings"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/internal/printable"
)

// legible is a formatter that lets no text of others reach a log or a terminal raw: no control characters, no direction
// marks, no invalid UTF-8, and no line break in a message. Line breaks and tabs in fields remain, because the formatters
// quote them.
type legible struct{ logrus.Formatter }

// Format formats an entry.
func (f legible) Format(entry *logrus.Entry) ([]byte, error) {
	clean := *entry
	clean.Message, clean.Data = printable.Line(entry.Message), make(logrus.Fields, len(entry.Data))
	for name, value := range entry.Data {
		switch value := value.(type) {
		case string:
			clean.Data[name] = printableLines(value)
		case error:
			clean.Data[name] = printableLines(value.Error())
		default:
			clean.Data[name] = value
		}
	}
	return f.Formatter.Format(&clean)
}

// withinLine matches a text without line breaks and tabs.
var withinLine = regexp.MustCompile(`[^\n\t]+`)

// printableLines is printable.Line for a text of several lines.
func printableLines(text string) string {
	if !strings.ContainsAny(text, "\n\t") {
		return printable.Line(text) // as nearly always
	}
	return withinLine.ReplaceAllStringFunc(text, printable.Line)
}
