package mask

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// FieldTypes matches the types of validation errors, as their texts begin.
const FieldTypes = `(?:Not found|Required value|Duplicate value|Invalid value|Unsupported value|Forbidden|Too long|Too many|Internal error|Too few)`

var (
	// problem matches the beginning of a validation error: FIELD: TYPE:
	problem = regexp.MustCompile(`((?:[^\s:"\[]|\[[^\]\n]*\])+): (` + FieldTypes + `)(?:: |$)`)
	// hiddenField matches the paths of fields that are hidden.
	hiddenField = regexp.MustCompile(`(?:^|[.\[])(?:annotations|env\[\d+\]|env|data|stringData)(?:$|[.\[])`)
	// quotation matches a quoted value, also if it is cut off.
	quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:"|$)`)
	// bareValue matches a value without quotes that begins the text of an error.
	bareValue = regexp.MustCompile(`^[^\s":]+`)
)

// unquoted returns a text without what validation errors quote of hidden fields.
func unquoted(text string) string {
	var b strings.Builder
	places, done := problem.FindAllStringSubmatchIndex(text, -1), 0
	for i, at := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		if !hiddenField.MatchString(text[at[2]:at[3]]) {
			continue
		}
		b.WriteString(text[done:at[1]])
		detail := quotation.ReplaceAllString(text[at[1]:end], `"`+Hidden+`"`)
		if kind := text[at[4]:at[5]]; strings.HasSuffix(kind, " value") && kind != "Required value" || kind == "Not found" {
			detail = bareValue.ReplaceAllString(detail, `"`+Hidden+`"`)
		}
		b.WriteString(detail)
		done = end
	}
	return b.String() + text[done:]
}

// Text returns a text without the values that were hidden, and without what validation errors quote of such fields.
func (m *Mask) Text(text string) string {
	if m.Show || text == "" {
		return text
	}
	text = unquoted(text)
	const short = 4
	for _, value := range m.longestFirst() {
		for _, form := range []string{value, inner(value)} {
			if len(value) < short {
				text = strings.ReplaceAll(text, `"`+form+`"`, `"`+Hidden+`"`)
			} else {
				text = strings.ReplaceAll(text, form, Hidden)
			}
		}
	}
	return text
}

func inner(value string) string {
	text := strconv.Quote(value)
	return text[1 : len(text)-1]
}

func (m *Mask) longestFirst() []string {
	slices.SortFunc(m.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	m.values = slices.Compact(m.values)
	return m.values
}

// Texts hides in each text of a list.
func (m *Mask) Texts(all []string) []string {
	for i := range all {
		all[i] = m.Text(all[i])
	}
	return all
}
