package explain

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxLine is the maximum size of a line in bytes. An event has at most the object that was sent and the object that was
// stored, of 3 MiB each, and the patches.
const maxLine = 64 << 20

// maxKept is the maximum size in bytes of the events that match, together.
const maxKept = 256 << 20

// Log holds the contents of audit logs.
type Log struct {
	Events   []Event    // that match, the oldest first
	Own      []Decision // of usher's own audit log, that match
	Problems []string   // lines that could not be read, the first of them
	Unread   int        // how many lines could not be read
	Torn     []Place    // incomplete last lines: an API server may be writing them
	Lines    int

	// Each, if set, gets each event in the order of the log, and none is kept.
	Each   func(*Event)
	filter Filter
	kept   int
	seen   map[string]bool // by auditID and stage: logs may overlap
}

// NewLog returns a log that keeps the events that match.
func NewLog(filter Filter) *Log { return &Log{filter: filter, seen: map[string]bool{}} }

// maxProblems is the number of unreadable lines that are described.
const maxProblems = 10

func (l *Log) problem(at Place, why string) {
	if l.Unread++; l.Unread <= maxProblems {
		l.Problems = append(l.Problems, fmt.Sprintf("%s: %s", at, why))
	}
}

// Read reads a log of JSON lines, each an event or an EventList, which may be compressed with gzip. An error means that
// the rest was not read.
func (l *Log) Read(name string, in io.Reader) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	if magic, _ := lines.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(lines)
		if err != nil {
			return fmt.Errorf("%s: is no complete gzip file", name)
		}
		lines = bufio.NewReaderSize(unzipped, 64<<10)
	}
	for at := (Place{name, 1}); ; at.Line++ {
		line, err := readLine(lines)
		if errors.Is(err, errLongLine) {
			l.problem(at, fmt.Sprintf("the line is longer than %d MiB, and was left out", maxLine>>20))
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: cannot be read to its end", at)
		}
		if first := string(bytes.TrimSpace(line)); at.Line == 1 && (first == "{" || first == "[") && err == nil {
			l.problem(at, "begins JSON on many lines, and an audit log has an event a line: `jq -c "+map[string]string{"{": ".", "[": "'.[]'"}[first]+
				" FILE` writes it so")
			return l.full()
		}
		if l.line(at, line, err == nil); err != nil || l.kept > maxKept {
			return l.full()
		}
	}
}

func (l *Log) full() error {
	slices.SortStableFunc(l.Events, func(a, b Event) int { return a.Received.Compare(b.Received) })
	if l.kept > maxKept {
		return fmt.Errorf("the events that match are larger than %d MiB: name one object, as NAMESPACE/NAME or with --uid", maxKept>>20)
	}
	return nil
}

var errLongLine = errors.New("too long")

// readLine returns a line without its end. io.EOF comes with the last line, which may be empty or incomplete. A line that
// is too long is skipped.
func readLine(in *bufio.Reader) (line []byte, err error) {
	tooLong := false
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLong && err == nil:
			return nil, errLongLine
		default:
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}

// line reads one line; whole reports whether it has an end.
func (l *Log) line(at Place, line []byte, whole bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	l.Lines++
	switch {
	case !whole && !json.Valid(line):
		l.Torn = append(l.Torn, at)
	case line[0] != '{':
		l.problem(at, prefixed(line))
	case bytes.Contains(line[:min(len(line), 200)], []byte(`"EventList"`)):
		l.list(at, line)
	default:
		l.add(at, line)
	}
}

// prefixed says what is wrong with a line that does not begin an object.
func prefixed(line []byte) string {
	if i := bytes.IndexByte(line, '{'); i > 0 && json.Valid(line[i:]) {
		return "does not begin with {: remove what a container runtime or a log collector has put before the event"
	}
	return "is not JSON: an audit log has an event a line"
}

func (l *Log) add(at Place, raw []byte) {
	e, own, err := decodeLine(raw)
	switch {
	case own && l.Each != nil:
		l.problem(at, "is of usher's own audit log, which has no objects")
		return
	case own:
		l.addOwn(at, raw)
		return
	}
	if err != nil {
		l.problem(at, err.Error()+hintFor(raw))
		return
	}
	e.Place = at
	id := e.AuditID + e.Stage
	switch {
	case l.Each != nil && e.AuditID != "" && l.seen[id]:
	case l.Each != nil:
		if l.Each(&e); slices.Contains(mutatingVerbs, e.Verb) { // reads are many, and count for little
			l.seen[id] = true
		}
	case l.filter.Matches(&e):
		l.Events, l.kept = append(l.Events, e), l.kept+len(raw)
	}
}

func (l *Log) addOwn(at Place, raw []byte) {
	d := Decision{Place: at}
	if json.Unmarshal(raw, &d.Record) != nil {
		l.problem(at, "is a line of usher's audit log with a field of a wrong type")
		return
	}
	if l.filter.MatchesDecision(&d) {
		l.Own, l.kept = append(l.Own, d), l.kept+len(raw)
	}
}

// hintFor says how to correct what is JSON on several lines, or other JSON around events.
func hintFor(raw []byte) string {
	if !json.Valid(raw) {
		return "; `jq -c .` writes JSON on one line"
	}
	return ""
}

// list reads the items of an EventList one by one.
func (l *Log) list(at Place, raw []byte) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		l.problem(at, "is not JSON"+hintFor(raw))
		return
	}
	for _, item := range list.Items {
		l.add(at, WithType(item, "audit.k8s.io/v1", "Event"))
	}
}

// WithType returns an object with the type that the items of a list may lack.
func WithType(item json.RawMessage, apiVersion, kind string) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(item, &fields) != nil || fields == nil || fields["kind"] != nil {
		return item
	}
	fields["kind"], fields["apiVersion"] = encode(kind), encode(apiVersion)
	return encode(fields)
}
