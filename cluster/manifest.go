package cluster

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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/document"
)

// manifest is one object of a file, as JSON.
type manifest struct {
	metav1.TypeMeta
	where string // file, document, line
	raw   []byte
}

// readManifests splits a file into its objects: YAML or JSON, one or many documents, and the items of lists. It goes on after a
// problem, to find them all.
func readManifests(file string, content []byte) (found []manifest, problems []error) {
	content = bytes.TrimPrefix(content, []byte("\uFEFF")) // a byte order mark
	split := splitYAML
	if filepath.Ext(file) == ".json" {
		split = splitJSON
	}
	for n, text := range split(content) {
		where := fmt.Sprintf("%s, document %d (line %d)", file, n+1, text.line)
		raw, err := text.toJSON()
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", where, err))
		} else if string(raw) != "null" {
			objects, wrong := expand(where, raw, metav1.TypeMeta{})
			found, problems = append(found, objects...), append(problems, wrong...)
		}
	}
	return found, problems
}

// text is one document of a file.
type text struct {
	raw  []byte
	line int // of the file, where the text begins
	json bool
}

// separator is a line that ends one YAML document and may begin the next. Such a line stays in the text: "--- {a: b}" is legal.
var separator = regexp.MustCompile(`(?m)^(---|\.\.\.)([ \t].*)?\r?$`)

// splitYAML splits at separators, and leaves out documents of nothing but comments.
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

// hasContent tells whether there is a line other than separators, directives and comments.
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

// splitJSON splits values that follow one another. What does not parse is the last part, for toJSON to say why.
func splitJSON(content []byte) (texts []text) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	for end := int64(0); ; {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return texts
		}
		from := end + int64(len(content[end:])-len(bytes.TrimLeft(content[end:], " \t\r\n")))
		line := 1 + bytes.Count(content[:from], []byte("\n"))
		if err != nil {
			return append(texts, text{content[from:], line, true})
		}
		end = decoder.InputOffset()
		texts = append(texts, text{raw, line, true})
	}
}

// toJSON gives the document as JSON. A key that occurs twice is an error.
func (t text) toJSON() ([]byte, error) {
	if t.json || json.Valid(t.raw) { // JSON is YAML, but for some escapes in strings
		parsed, err := document.Parse(t.raw)
		if err == nil {
			parsed.Release()
		}
		return t.raw, err
	}
	raw, err := yaml.YAMLToJSONStrict(t.raw)
	if err != nil {
		return nil, errors.New(inFile(err.Error(), t.line))
	}
	return raw, nil
}

var lineNumber = regexp.MustCompile(`\bline (\d+)`)

// inFile counts the line numbers in a YAML error from the beginning of the file.
func inFile(message string, line int) string {
	return lineNumber.ReplaceAllStringFunc(message, func(found string) string {
		n, err := strconv.Atoi(strings.TrimPrefix(found, "line "))
		if err != nil {
			return found
		}
		return fmt.Sprintf("line %d", n+line-1)
	})
}

// maxNesting bounds lists within lists.
const maxNesting = 10

// expand gives the object, or the items of a list: of kind List, or PodList, whose items need not say their type.
func expand(where string, raw []byte, itemOf metav1.TypeMeta) (found []manifest, problems []error) {
	var head struct {
		metav1.TypeMeta
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, []error{fmt.Errorf("%s: not a Kubernetes object: not a mapping with apiVersion and kind", where)}
	}
	if head.Kind == "" && head.APIVersion == "" {
		head.TypeMeta = itemOf
	}
	if head.Kind == "" || head.APIVersion == "" {
		return nil, []error{fmt.Errorf("%s: not a Kubernetes object: apiVersion or kind is missing", where)}
	}
	element, isList := strings.CutSuffix(head.Kind, "List")
	if !isList || head.Items == nil {
		return []manifest{{head.TypeMeta, where, raw}}, nil
	}
	itemOf = metav1.TypeMeta{}
	if element != "" {
		itemOf = metav1.TypeMeta{APIVersion: head.APIVersion, Kind: element}
	}
	if strings.Count(where, ", item ") >= maxNesting {
		return nil, []error{fmt.Errorf("%s: more than %d lists within each other", where, maxNesting)}
	}
	for n, each := range head.Items {
		objects, wrong := expand(fmt.Sprintf("%s, item %d", where, n+1), each, itemOf)
		found, problems = append(found, objects...), append(problems, wrong...)
	}
	return found, problems
}
