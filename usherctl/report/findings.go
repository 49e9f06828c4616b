package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Findings prints the findings of reports, the worst first as the reports are sorted. A finding of several objects is
// printed once, with the commands for all.
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
		var of []Finding
		for _, other := range all {
			if f.same(other) {
				of = append(of, other)
			}
		}
		findingText(&b, f.of(of), style)
		b.WriteByte('\n')
	}
	_, _ = fmt.Fprint(to, b.String())
}

// of returns a finding of several objects, with a command a line.
func (f Finding) of(all []Finding) Finding {
	joined := func(member func(Finding) string, between string) string {
		var texts []string
		for _, one := range all {
			if text := member(one); text != "" && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, between)
	}
	f.Object = joined(func(one Finding) string { return one.Object }, ",\n    ")
	f.Fix = joined(func(one Finding) string { return one.Fix }, "\n")
	f.Look = joined(func(one Finding) string { return one.Look }, "\n")
	return f
}

// same reports whether another finding says the same of another object.
func (f Finding) same(other Finding) bool {
	return f.ID == other.ID && f.Severity == other.Severity && f.Message == other.Message
}
