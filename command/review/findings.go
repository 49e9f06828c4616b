package review

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Findings prints the findings of reports, the worst first as the reports are sorted. A finding of several objects is
// printed once.
func Findings(to io.Writer, reports []Report, style Style) {
	var all []Finding
	for _, r := range reports {
		all = append(all, r.Findings...)
	}
	order := []Severity{Error, Unknown, Warning, Info}
	slices.SortStableFunc(all, func(a, b Finding) int { return slices.Index(order, a.Severity) - slices.Index(order, b.Severity) })
	var b strings.Builder
	var printed []Finding
	for _, f := range all {
		if slices.ContainsFunc(printed, f.same) {
			continue
		}
		printed = append(printed, f)
		objects := []string{f.Object}
		for _, other := range all {
			if f.same(other) && !slices.Contains(objects, other.Object) {
				objects = append(objects, other.Object)
			}
		}
		f.Object = strings.Join(objects, ",\n    ")
		findingText(&b, f, style)
		b.WriteByte('\n')
	}
	_, _ = fmt.Fprint(to, b.String())
}

// same reports whether another finding says the same of another object.
func (f Finding) same(other Finding) bool {
	return f.ID == other.ID && f.Severity == other.Severity && f.Message == other.Message
}
