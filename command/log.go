package command

import (
	"context"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/lines"
	"usher.dev/usher/internal/printable"
)

// newLogger returns a logger that writes to a writer, which passes the lines on to end: perhaps a terminal.
func newLogger(format string, end, to io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(to)
	if format == "json" || format == "auto" && !cli.IsTerminal(end) {
		log.SetFormatter(handlers.JSONLines{Formatter: legible{&logrus.JSONFormatter{TimestampFormat: handlers.TimeFormat}}, To: to})
	} else {
		log.SetFormatter(legible{&logrus.TextFormatter{ForceColors: cli.IsTerminal(end)}})
	}
	return log
}

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

// maxClose bounds the wait for the reader of a log at its end.
const maxClose = 500 * time.Millisecond

func closeSoon(w *lines.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), maxClose)
	defer cancel()
	_ = w.Close(ctx) // there is nowhere to say so
}

// warnings writes the lines of another logger to a log.
type warnings struct{ log *logrus.Logger }

func (w warnings) Write(line []byte) (int, error) {
	w.log.Warn(strings.TrimSpace(string(line)))
	return len(line), nil
}
