package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// text is one document of a file.
type text struct {
	raw  []byte
	line int // the line of the file where the text begins
	json bool
}

// split returns the documents of a file. It does not use the YAML reader of apimachinery, which supports neither line
// numbers nor the end marker.
func split(file string, content []byte) (texts []text) {
	content = bytes.TrimPrefix(content, []byte("\uFEFF")) // a byte order mark
	if filepath.Ext(file) == ".json" {
		return splitJSON(text{raw: content, line: 1})
	}
	for _, t := range splitYAML(content) {
		texts = append(texts, t.values()...)
	}
	return texts
}

// separator matches a line that ends one YAML document and may begin the next. The line remains in the text, because
// "--- {a: b}" is valid.
var separator = regexp.MustCompile(`(?m)^(---|\.\.\.)([ \t].*)?\r?$`)

// splitYAML splits at separators, and omits documents that contain only comments.
func splitYAML(content []byte) (texts []text) {
	from, line := 0, 1
	add := func(to int) {
		raw := content[from:to]
		if hasContent(raw) {
			blank := len(raw) - len(bytes.TrimLeft(raw, "\r\n"))
			texts = append(texts, text{raw: raw[blank:], line: line + bytes.Count(raw[:blank], []byte("\n"))})
		}
		line += bytes.Count(raw, []byte("\n"))
		from = to
	}
	for _, at := range separator.FindAllIndex(content, -1) {
		add(at[0])
	}
	add(len(content))
	return texts
}

// hasContent reports whether there is a line that is no separator, directive or comment.
func hasContent(raw []byte) bool {
	for line := range bytes.Lines(raw) {
		line = bytes.TrimSpace(line)
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok {
			line = bytes.TrimSpace(rest)
		}
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && string(line) != "..." {
			return true
		}
	}
	return false
}

// jsonObject matches the beginning of a JSON object, possibly after a separator line. YAML in flow style begins with a
// brace too, but its keys are rarely quoted.
var jsonObject = regexp.MustCompile(`^(---[ \t]*\r?\n)?\s*\{\s*["}]`)

// values returns the JSON values of a YAML document, or the document itself if it is not JSON.
func (t text) values() []text {
	if !jsonObject.Match(t.raw) {
		return []text{t}
	}
	from := bytes.IndexByte(t.raw, '{')
	values := splitJSON(text{raw: t.raw[from:], line: t.line + bytes.Count(t.raw[:from], []byte("\n"))})
	last := values[len(values)-1]
	switch broken := !json.Valid(last.raw); {
	case broken && !hasContent(last.raw): // a comment
		values = values[:len(values)-1]
	case broken && len(values) == 1:
		if _, err := yaml.YAMLToJSONStrict(t.raw); err == nil {
			return []text{t}
		}
	}
	if len(values) == 1 {
		values[0].line = t.line
	}
	return values
}

// splitJSON splits consecutive values. If a part does not parse, it is the last one; toJSON then returns the error.
func splitJSON(t text) (texts []text) {
	decoder := json.NewDecoder(bytes.NewReader(t.raw))
	for end := int64(0); ; {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return texts
		}
		from := end + int64(len(t.raw[end:])-len(bytes.TrimLeft(t.raw[end:], " \t\r\n")))
		line := t.line + bytes.Count(t.raw[:from], []byte("\n"))
		if err != nil {
			return append(texts, text{t.raw[from:], line, true})
		}
		end = decoder.InputOffset()
		texts = append(texts, text{raw, line, true})
	}
}

// toJSON returns the document as JSON. Duplicate keys are an error.
func (t text) toJSON() ([]byte, error) {
	if t.json || json.Valid(t.raw) { // JSON is YAML, except for some escapes in strings
		return t.raw, parse(t.raw)
	}
	raw, err := yaml.YAMLToJSONStrict(t.raw)
	if err != nil {
		return nil, errors.New(inFile(err.Error(), t.line))
	}
	return raw, nil
}

var lineNumber = regexp.MustCompile(`\bline (\d+)`)

// inFile changes the line numbers in a YAML error to count from the beginning of the file.
func inFile(message string, line int) string {
	return lineNumber.ReplaceAllStringFunc(message, func(found string) string {
		n, err := strconv.Atoi(strings.TrimPrefix(found, "line "))
		if err != nil {
			return found
		}
		if strings.Contains(message, "did not find expected") {
			n++ // the YAML parser, unlike its scanner, counts lines from 0
		}
		return fmt.Sprintf("line %d", n+line-1)
	})
}
