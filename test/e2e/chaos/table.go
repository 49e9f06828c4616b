package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// result holds the cost of a fault.
type result struct {
	fault    fault
	requests int           // that the API server answered, in both namespaces
	failed   int           // requests refused with failurePolicy Fail, because usher was not reached
	skipped  int           // pods stored without usher with Ignore
	refused  int           // requests refused in spite of Ignore
	unserved int           // requests that the API server itself did not answer
	last     time.Duration // from the beginning of the fault until the last request that did not go well
	slowest  time.Duration // request that the API server answered
	example  error         // of the first request that failed
}

// sum sums up the records since a fault began.
func sum(f fault, began time.Time, all []record) result {
	r := result{fault: f}
	for _, one := range all {
		if one.ended.Before(began) {
			continue
		}
		r.requests++
		if one.outcome != unserved {
			r.slowest = max(r.slowest, one.ended.Sub(one.began))
		}
		switch {
		case one.outcome == seated:
			continue
		case one.outcome == unserved:
			r.requests--
			r.unserved++
			continue
		case one.outcome == skipped:
			r.skipped++
		case one.namespace == failing:
			r.failed++
		default:
			r.refused++
		}
		r.last = max(r.last, one.ended.Sub(began))
		if r.example == nil {
			r.example = one.err
		}
	}
	return r
}

// String returns the result as a line of progress.
func (r result) String() string {
	text := fmt.Sprintf("%d requests, %d failed (Fail), %d skipped and %d failed (Ignore), well after %.1f s, the slowest took %.1f s",
		r.requests, r.failed, r.skipped, r.refused, r.last.Seconds(), r.slowest.Seconds())
	if r.example != nil {
		text += "\n          such as: " + r.example.Error()
	}
	return text
}

// tableHead is the head of the table.
const tableHead = "| fault | what is done | failed with Fail, unchecked with Ignore, until healthy |\n|---|---|---|\n"

// row returns the result as a row of a Markdown table.
func (r result) row() string {
	cost := "none"
	if r.failed+r.skipped+r.refused > 0 {
		cost = fmt.Sprintf("%d, %d, %.1f s", r.failed, r.skipped, r.last.Seconds())
	}
	if r.refused > 0 {
		cost += fmt.Sprintf("; %d failed with Ignore", r.refused)
	}
	return fmt.Sprintf("| %s | %s | %s |\n", r.fault.name, r.fault.doc, cost)
}

// table returns the rows of the results. A fault that was not caused keeps the row of an earlier table.
func table(results []result, earlier string) string {
	text := tableHead
	for _, f := range faults {
		i := slices.IndexFunc(results, func(r result) bool { return r.fault.name == f.name })
		if i >= 0 {
			text += results[i].row()
			continue
		}
		for line := range strings.Lines(earlier) {
			if strings.HasPrefix(line, "| "+f.name+" |") {
				text += line
			}
		}
	}
	return text
}

// The marks around the table in a page.
const tableBegins, tableEnds = "<!-- chaos: begin -->\n", "<!-- chaos: end -->"

// writeTable brings the table in a page up to date.
func writeTable(page string, results []result) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	earlier, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s: has no lines %q and %q", page, strings.TrimSpace(tableBegins), tableEnds)
	}
	return os.WriteFile(page, []byte(before+tableBegins+table(results, earlier)+tableEnds+after), 0o644)
}

// missed returns an error for each fault that cost a request although it must not.
func missed(results []result) error {
	var all []error
	for _, r := range results {
		if r.fault.free && r.failed+r.skipped+r.refused > 0 {
			all = append(all, fmt.Errorf("%s must cost nothing: %s", r.fault.name, r))
		}
	}
	return errors.Join(all...)
}
