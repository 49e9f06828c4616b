package review

import (
	"fmt"
	"slices"
	"strings"
)

// Summary returns the last line of a review, such as "5 objects: 3 allowed (2 changed), 1 denied, 1 skipped".
func Summary(reports []Report) string {
	return plural(len(reports), "object", true) + ": " + counts(reports, Allowed, Denied, NotJudged, Skipped)
}

// CaseSummary returns the last line of `usher test`, such as "42 cases: 40 passed, 2 failed".
func CaseSummary(reports []Report) string {
	cases := slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Case == "" })
	text := plural(len(cases), "case", true)
	if counted := counts(cases, Passed, Failed, NotJudged); counted != "" {
		text += ": " + counted
	}
	if n := len(reports) - len(cases); n > 0 {
		text += "; " + plural(n, "problem", true) + " with the files"
	}
	return text
}

// counts says how many reports have each of some verdicts, in their order.
func counts(reports []Report, verdicts ...Verdict) string {
	var parts []string
	for _, verdict := range verdicts {
		n, changed := 0, 0
		for _, r := range reports {
			if r.Verdict != verdict {
				continue
			}
			if n++; verdict == Allowed && r.Changed() {
				changed++
			}
		}
		if n == 0 {
			continue
		}
		text := plural(n, string(verdict), verdict == NotJudged)
		if changed > 0 {
			text += fmt.Sprintf(" (%d changed)", changed)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// plural returns a number with a noun, which may have a plural.
func plural(n int, noun string, counted bool) string {
	if counted && n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
