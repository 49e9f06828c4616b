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

// toJSON returns the document as JSON. Of a key that is set twice the last value counts, and duplicate says which key.
func (t text) toJSON() (raw []byte, duplicate, err error) {
	if len(t.raw) > MaxBytes {
		return nil, nil, fmt.Errorf("larger than %d MiB", MaxBytes>>20)
	}
	if t.json || json.Valid(t.raw) { // JSON is YAML, except for some escapes in strings
		if err = parse(t.raw); err == nil || !strings.Contains(err.Error(), "duplicate key") {
			return t.raw, nil, err
		}
		if raw, lax := lastValues(t.raw); lax == nil {
			return raw, err, nil
		}
		return nil, nil, err
	}
	if raw, err = yaml.YAMLToJSONStrict(t.raw); err == nil {
		return raw, nil, nil
	}
	strict := errors.New(inFile(err.Error(), t.line))
	if raw, err = yaml.YAMLToJSON(t.raw); err == nil {
		return raw, errors.New(strings.Join(strings.Fields(strings.TrimPrefix(strict.Error(), "yaml: unmarshal errors:")), " ")), nil
	}
	if at := bytes.Index(t.raw, []byte("{{")); at >= 0 {
		line := t.line + bytes.Count(t.raw[:at], []byte("\n"))
		return nil, nil, fmt.Errorf("line %d: a template, such as Helm's, and not YAML yet; render it first: helm template . | usherctl review -", line)
	}
	return nil, nil, strict
}

// lastValues returns JSON in which every key stands once, with its last value.
func lastValues(raw []byte) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
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
