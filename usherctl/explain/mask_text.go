package explain

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"usher.dev/usher/server/recording/mask"
)

var (
	// problem matches the beginning of a validation error: FIELD: TYPE:
	problem = regexp.MustCompile(`((?:[^\s:"\[]|\[[^\]\n]*\])+): (` + fieldTypes + `)(?:: |$)`)
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
		detail := quotation.ReplaceAllString(text[at[1]:end], `"`+mask.Hidden+`"`)
		if kind := text[at[4]:at[5]]; strings.HasSuffix(kind, " value") && kind != "Required value" || kind == "Not found" {
			detail = bareValue.ReplaceAllString(detail, `"`+mask.Hidden+`"`)
		}
		b.WriteString(detail)
		done = end
	}
	return b.String() + text[done:]
}

// maskText returns a text without the values that a mask has hidden, and without what validation errors quote of such fields.
func maskText(m *mask.Mask, text string) string {
	if m.Show || text == "" {
		return text
	}
	text = unquoted(text)
	const short = 4
	for _, value := range longestFirst(m.Values()) {
		for _, form := range []string{value, inner(value)} {
			if len(value) < short {
				text = strings.ReplaceAll(text, `"`+form+`"`, `"`+mask.Hidden+`"`)
			} else {
				text = strings.ReplaceAll(text, form, mask.Hidden)
			}
		}
	}
	return text
}

func inner(value string) string {
	text := strconv.Quote(value)
	return text[1 : len(text)-1]
}

func longestFirst(values []string) []string {
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(values)
}

// maskTexts hides in each text of a list.
func maskTexts(m *mask.Mask, all []string) []string {
	for i := range all {
		all[i] = maskText(m, all[i])
	}
	return all
}
