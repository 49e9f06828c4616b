package report

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
)

// asYAML returns a JSON value as YAML. The text is that of yaml.Marshal, which takes fifty times the memory of the text: it makes what is rare,
// and what is common in objects is written here.
func asYAML(value any) string {
	if is, composed := value.(map[string]any); composed && len(is) > 0 {
		return string(appendMap(nil, is, 0))
	}
	return string(appendMarshaled(nil, value, 0))
}

// appendMap appends the entries of a map that is in as many others.
func appendMap(b []byte, of map[string]any, depth int) []byte {
	if !plainKeys(of) {
		return appendMarshaled(b, of, depth)
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		start := len(b)
		b = append(append(appendIndent(b, depth), key...), ':')
		switch value := of[key].(type) {
		case map[string]any:
			if len(value) > 0 {
				b = appendMap(append(b, '\n'), value, depth+1)
				continue
			}
		case []any:
			if len(value) > 0 {
				b = appendList(append(b, '\n'), value, depth)
				continue
			}
		}
		if text, common := scalar(of[key], 2*depth+len(key)+2); common {
			b = append(append(append(b, ' '), text...), '\n')
		} else {
			b = appendMarshaled(b[:start], map[string]any{key: of[key]}, depth)
		}
	}
	return b
}

// appendList appends the elements of a list. Those that are maps are indented, with a dash before the first key.
func appendList(b []byte, list []any, depth int) []byte {
	for _, element := range list {
		start := len(b)
		if is, composed := element.(map[string]any); composed && len(is) > 0 {
			b = appendMap(b, is, depth+1)
			b[start+2*depth] = '-'
		} else if text, common := scalar(element, 2*depth+2); common {
			b = append(append(append(appendIndent(b, depth), "- "...), text...), '\n')
		} else {
			b = appendMarshaled(b, map[string]any{"": []any{element}}, depth)
			b = slices.Delete(b, start, start+bytes.IndexByte(b[start:], '\n')+1)
		}
	}
	return b
}

// appendMarshaled appends what yaml.Marshal makes of a value that is in as many maps.
func appendMarshaled(b []byte, value any, depth int) []byte {
	for range depth {
		value = map[string]any{"in": value}
	}
	text, _ := yaml.Marshal(value)
	for range depth {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return append(b, text...)
}

func appendIndent(b []byte, depth int) []byte {
	for range depth {
		b = append(b, "  "...)
	}
	return b
}

// plainKeys reports whether a map has only keys that are written and sorted as they are.
func plainKeys(of map[string]any) bool {
	for key := range of {
		if len(key) > 100 || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || len(key) <= 5 && word.MatchString(key) {
			return false
		}
	}
	return true
}

var (
	// word is what YAML 1.1 reads as a boolean or null.
	word = regexp.MustCompile(`^(?:[yYnN]|yes|Yes|YES|on|On|ON|no|No|NO|off|Off|OFF|true|True|TRUE|false|False|FALSE|null|Null|NULL|)$`)
	// plain is text that YAML reads as text: no number, which ends otherwise, and no date.
	plain = regexp.MustCompile(`^(-{0,2}[A-Za-z/][!-~]*|[0-9][0-9A-Za-z._/-]*[g-zG-Y])$`)
	// number is text that YAML reads as an integer.
	number = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)
	// steering is what makes something else of text.
	steering = regexp.MustCompile(`:$|: | #|\\`)
)

// scalar returns a value that is written from a column on as YAML, if it is a common one: text without line breaks, on one line.
func scalar(value any, column int) (text string, common bool) {
	switch is := value.(type) {
	case bool:
		return strconv.FormatBool(is), true
	case int64:
		return strconv.FormatInt(is, 10), true
	case string:
		first, _, _ := strings.Cut(is, " ")
		switch {
		case number.MatchString(is), len(is) <= 5 && word.MatchString(is):
			return strconv.Quote(is), true
		case len(is)+column <= 80 && plain.MatchString(first) && spaced(is) && !steering.MatchString(is):
			return is, true
		}
	case map[string]any:
		return "{}", len(is) == 0
	case []any:
		return "[]", len(is) == 0
	}
	return "", false
}

// spaced reports whether a text has printable characters of ASCII only, and spaces only between them.
func spaced(text string) bool {
	return !strings.HasSuffix(text, " ") && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
