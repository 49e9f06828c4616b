package doctor

import (
	"slices"
	"strings"

	"usher.dev/usher/usherctl/report"
)

// joinCauses gives findings about webhooks that have one cause one text, and the list of the webhooks. Each webhook keeps its own, with its command.
func joinCauses(reports []report.Report) {
	var groups [][]*report.Finding
	for _, r := range reports {
		for i := range r.Findings {
			f := &r.Findings[i]
			at := slices.IndexFunc(groups, func(g []*report.Finding) bool { return oneCause(*g[0], *f) })
			if at < 0 {
				at, groups = len(groups), append(groups, nil)
			}
			groups[at] = append(groups[at], f)
		}
	}
	for _, g := range groups {
		var said, about []string
		for _, f := range g {
			said, about = append(said, sentences(f.Message)...), append(about, f.Object)
		}
		if about = distinct(about); len(about) > 1 {
			for _, f := range g {
				f.Message, f.Webhooks = strings.Join(distinct(said), " "), about
			}
		}
	}
}

// oneCause reports whether two findings of a kind say the same but for what becomes of requests, or are ended by one command in one configuration.
func oneCause(a, b report.Finding) bool {
	configuration := func(f report.Finding) string { name, _, _ := strings.Cut(f.Object, ", "); return name }
	return a.ID == b.ID && a.Severity == b.Severity && a.Object != b.Object &&
		(cause(a) == cause(b) || a.Fix != "" && a.Fix == b.Fix && configuration(a) == configuration(b))
}

// cause returns what a finding says but for what becomes of requests.
func cause(f report.Finding) string {
	return strings.Join(slices.DeleteFunc(sentences(f.Message), func(s string) bool { return strings.HasPrefix(s, "With failurePolicy ") }), " ")
}

// sentences returns the sentences of a text.
func sentences(text string) []string {
	return strings.Split(strings.NewReplacer(". ", ".\n", "? ", "?\n").Replace(text), "\n")
}

// distinct returns texts in their order, each once.
func distinct(texts []string) (all []string) {
	for _, text := range texts {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// joinUnread makes one finding of those for what could not be read for the same reason.
func joinUnread(found []report.Finding) (all []report.Finding) {
	const what = " Not looked at: "
	for _, f := range found {
		why, of, is := strings.Cut(f.Message, what)
		at := slices.IndexFunc(all, func(one report.Finding) bool {
			return is && one.ID == f.ID && one.Severity == f.Severity && strings.HasPrefix(one.Message, why+what)
		})
		if at < 0 {
			all = append(all, f)
		} else if of = strings.TrimSuffix(of, "."); !strings.Contains(all[at].Message, of) {
			all[at].Message = strings.TrimSuffix(all[at].Message, ".") + "; " + of + "."
		}
	}
	return all
}
