package expression

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
)

// placed returns the problems of an expression with their places.
func placed(text string, issues *cel.Issues) string {
	var all []string
	for _, e := range issues.Errors() {
		at := ""
		if e.Location.Line() > 0 { // the library has no place for what exceeds its limits
			at = fmt.Sprintf("line %d column %d: ", e.Location.Line(), e.Location.Column()+1)
		}
		message := strings.NewReplacer(" (in container '')", "", "'<EOF>'", "the end").Replace(e.Message)
		undeclared := strings.HasPrefix(message, "undeclared reference")
		switch token := tokenAt(text, e.Location); { // the parser's other problems follow from a slip
		case strings.Contains(message, "error at: ''") || strings.Contains(message, `error at: '"`):
			return at + `the text is not closed; a quote in it is written \' or \"`
		case instead(token) != "" && undeclared:
			message += "; write " + instead(token)
		case instead(token) != "":
			return fmt.Sprintf("%s%s is not CEL; write %s", at, token, instead(token))
		case undeclared:
			message += "; there are " + names
		}
		all = append(all, at+expected.ReplaceAllString(message, ""))
	}
	return strings.Join(all, "; ")
}

// expected matches the parser's list of tokens that it expects, and token a word or a sign.
var (
	expected = regexp.MustCompile(` expecting (\{.*\}|<EOF>)`)
	token    = regexp.MustCompile(`^\s*([\pL\pN_]+|[^\pL\pN_\s]+)`)
)

// tokenAt returns the word or sign at a place of a text, or the word not before it; "" for a place outside.
func tokenAt(text string, at common.Location) string {
	lines := strings.Split(text, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	line := []rune(lines[at.Line()-1])
	if at.Column() < 0 || at.Column() > len(line) {
		return ""
	}
	before, after := string(line[:at.Column()]), string(line[at.Column():])
	if words := strings.Fields(before); len(words) > 0 && strings.EqualFold(words[len(words)-1], "not") {
		return words[len(words)-1]
	}
	return strings.TrimSpace(token.FindString(after))
}

// instead returns what CEL has for a word or sign of other languages, or "".
func instead(of string) string {
	switch strings.ToLower(of) {
	case "and", "&":
		return "&&"
	case "or", "|":
		return "||"
	case "not":
		return "!(...)"
	case "is", "=":
		return "=="
	case "=~", "~", "~=", "like":
		return "text.matches('pattern')"
	case "if", "then", "elif", "else":
		return "condition ? value : other"
	case "nil", "none":
		return "null"
	}
	if strings.ContainsAny(of, "“”„‘’`") {
		return `texts in ' or "`
	}
	return ""
}
