package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
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

// texts hides in each text of a list.
func (m *Mask) texts(all []string) []string {
	for i := range all {
		all[i] = m.Text(all[i])
	}
	return all
}
