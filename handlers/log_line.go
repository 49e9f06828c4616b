package handlers

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/internal/printable"
)

// TimeFormat is the format of the time in lines of JSON.
const TimeFormat = time.RFC3339Nano

// maxField is the maximum length in characters of a text in the log: a caller may send a name of megabytes.
const maxField = 500

// JSONLines is a formatter of JSON with TimeFormat, for a logger whose output is To. There is a line for every review, and
// logrus' maps of fields would take a tenth of its time: Log writes these lines to To itself, in the bytes that logrus
// would write. So To is written to concurrently.
type JSONLines struct {
	logrus.Formatter
	To io.Writer
}

// logLine is the line of a review.
type logLine struct {
	fields []logField
	order  []uint8 // of the fields by name; see encode
	json   []byte
}

// logField is a field of a line: a text, a number or a boolean.
type logField struct {
	name   string
	kind   document.Kind // Text, Number, True or False
	text   string
	number int
}

// clear makes the line ready for another review, and keeps nothing of this one.
func (l *logLine) clear() {
	clear(l.fields)
	l.fields = l.fields[:0]
	if cap(l.json) > maxLine {
		l.json = nil
	}
}

// maxLine is the size in bytes above which the memory of a line is not kept.
const maxLine = 4 << 10

// text adds a text of at most maxField characters, of which what is not printable is escaped.
func (l *logLine) text(name, value string) {
	l.fields = append(l.fields, logField{name: name, kind: document.Text, text: printable.Line(admit.Shorten(value, maxField))})
}

// raw adds a text as it is, of several lines.
func (l *logLine) raw(name, value string) {
	l.fields = append(l.fields, logField{name: name, kind: document.Text, text: value})
}

func (l *logLine) number(name string, value int) {
	l.fields = append(l.fields, logField{name: name, kind: document.Number, number: value})
}

func (l *logLine) flag(name string, value bool) {
	kind := document.False
	if value {
		kind = document.True
	}
	l.fields = append(l.fields, logField{name: name, kind: kind})
}

// write writes the line to the log. It goes through logrus with all its fields if a hook, or a formatter of text, needs
// them.
func (l *logLine) write(log *logrus.Logger, level logrus.Level, message string) {
	if !log.IsLevelEnabled(level) {
		return
	}
	lines, own := log.Formatter.(JSONLines)
	if !own || len(log.Hooks[level]) > 0 || log.ReportCaller {
		log.WithFields(l.asFields()).Log(level, message)
		return
	}
	l.text(logrus.FieldKeyLevel, level.String())
	l.text(logrus.FieldKeyMsg, message)
	l.text(logrus.FieldKeyTime, time.Now().Format(TimeFormat))
	l.encode()
	_, _ = lines.To.Write(l.json) // as for logrus' lines: nobody could be told
}

func (l *logLine) asFields() logrus.Fields {
	fields := make(logrus.Fields, len(l.fields))
	for _, f := range l.fields {
		switch f.kind {
		case document.Text:
			fields[f.name] = f.text
		case document.Number:
			fields[f.name] = f.number
		default:
			fields[f.name] = f.kind == document.True
		}
	}
	return fields
}

// encode sets json to the fields in the order of their names. Sorting small numbers costs half as much as sorting fields.
func (l *logLine) encode() {
	l.order = l.order[:0]
	for i := range l.fields {
		l.order = append(l.order, uint8(i))
	}
	slices.SortFunc(l.order, func(a, b uint8) int { return cmp.Compare(l.fields[a].name, l.fields[b].name) })
	b := l.json[:0]
	for _, i := range l.order {
		f := &l.fields[i]
		b = append(append(append(b, `,"`...), f.name...), `":`...)
		switch f.kind {
		case document.Text:
			b = document.AppendText(b, f.text)
		case document.Number:
			b = strconv.AppendInt(b, int64(f.number), 10)
		default:
			b = strconv.AppendBool(b, f.kind == document.True)
		}
	}
	b[0] = '{'
	b = append(b, "}\n"...)
	l.json = b
}
