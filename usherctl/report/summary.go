package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"usher.dev/usher/internal/printable"
)

// Summary returns the last line of a review, such as "5 objects: 3 allowed (2 changed), 1 denied, 1 skipped".
func Summary(reports []Report) string {
	return plural(len(reports), "object", true) + ": " + counts(reports, Allowed, Denied, Invalid, NotJudged, Errored, Skipped)
}

// NoRoute is the hint for an object of a kind that no route is for.
const NoRoute = "no route is for this kind of object under this policy; `usherctl steps` lists the routes"

// Unrouted reports whether an object was skipped because no route is for its kind, and there is nothing else to say of it.
func Unrouted(r Report) bool {
	return r.Verdict == Skipped && r.Hint == NoRoute && len(r.Warnings)+len(r.Unknown)+len(r.Webhooks)+len(r.Notes) == 0
}

// UnroutedText names the kinds of the unrouted objects on one line, with their numbers, or returns "".
func UnroutedText(reports []Report) string {
	all, kinds := 0, map[string]int{}
	for _, r := range reports {
		if Unrouted(r) {
			all++
			kinds[printable.Lines(r.Kind)]++
		}
	}
	if all == 0 {
		return ""
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	return fmt.Sprintf("skipped  %s of kinds that no route is for under this policy: %s; `usherctl steps` lists the routes", plural(all, "object", true),
		strings.Join(parts, ", "))
}

// CaseSummary returns the last line of `usherctl test`, such as "42 cases: 40 passed, 2 failed".
func CaseSummary(reports []Report) string {
	cases := slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Case == "" })
	text := plural(len(cases), "case", true)
	if counted := counts(cases, Passed, Failed, Errored); counted != "" {
		text += ": " + counted
	}
	if n := len(reports) - len(cases); n > 0 {
		text += "; " + plural(n, "problem", true) + " with the files"
	}
	return text
}

// TestSummary returns the last line of `usherctl probe`, such as "30 tests: 29 passed, 1 failed".
func TestSummary(reports []Report) string {
	return plural(len(reports), "test", true) + ": " + counts(reports, Passed, Failed, NotJudged, Skipped)
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
		text := plural(n, string(verdict), verdict == Errored)
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
