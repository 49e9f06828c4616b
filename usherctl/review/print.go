package review

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// print prints the reports of documents as they come. The error, if any, ends the command with the exit code of the worst verdict.
func (r *reviewing) print(ctx context.Context, documents []requests.Document, reports iter.Seq[report.Report]) error {
	var light, quotas []report.Report
	n, pods := len(documents), planned{}
	whole := func(yield func(report.Report) bool) {
		for result := range reports {
			if r.o.strict {
				result.Findings = append(result.Findings, result.Strictly()...)
			}
			if r.live != nil {
				pods.add(documents[len(light)], result)
			}
			if light = append(light, report.Light(result)); len(light) == n && (r.o.output == "json" || r.o.output == "junit") {
				result.Hint = strings.TrimSpace(result.Hint + "\n" + r.notLooked)
			}
			if !yield(result) {
				return
			}
		}
		if r.live != nil {
			quotas = pods.reports(ctx, r.live.source, r.instance)
		}
		for _, q := range quotas {
			if !yield(q) {
				return
			}
		}
	}
	if r.o.output == "json" || r.o.output == "junit" {
		if err := report.Write(r.Out, r.o.output, "usherctl review", whole); err != nil {
			return err
		}
	} else {
		r.printText(n, whole, &light)
	}
	exit := report.ExitOfReview(slices.Concat(light, quotas))
	return cmp.Or(exit.Err("some objects were not judged, or could not be reviewed"), r.slipped())
}

// slipped returns an error if files of --cluster-dir count for nothing.
func (r *reviewing) slipped() error {
	if r.slips.Err() == nil {
		return nil
	}
	return report.Unjudged.Err("some files of --cluster-dir count for nothing")
}

// printText prints n reports as text, and then what is to say of all of them. Pods of an owner of which the same is said are printed once.
func (r *reviewing) printText(n int, reports iter.Seq[report.Report], all *[]report.Report) {
	style := r.Style()
	style.Patch = r.o.output == "patch"
	hidden, shown, groups, unjudged, began, done := "", map[string]bool{}, report.Groups{}, []report.Report(nil), time.Now(), 0
	shows := func(result report.Report) bool {
		return (!report.Unrouted(result) || n == 1) && (!r.o.quiet || result.Exit() != report.Fine || len(result.Unknown) > 0)
	}
	for result := range reports {
		if done++; done%100 == 0 && time.Since(began) > time.Second {
			r.Progress(fmt.Sprintf("reviewed %d of %d objects", done, n))
		}
		if !r.o.explain {
			result.Plugins = slices.DeleteFunc(slices.Clone(result.Plugins), func(p report.Plugin) bool { return slices.Contains(routine, p.Name) })
		}
		if r.o.mainOnly {
			result.Calls, hidden = r.withoutIdleSuites(result.Calls, hidden)
		}
		for _, call := range result.Calls {
			shown[call.Path] = true
		}
		if len(result.Unjudged) > 0 {
			unjudged = append(unjudged, report.Report{Subject: result.Subject, Sections: report.Sections{Unjudged: result.Unjudged}})
		}
		if groups.Add(result) || !shows(result) {
			continue
		}
		if n > 1 {
			result.Unjudged = nil // it is below, with what others have in common
		}
		r.Progress("")
		report.Text(r.Out, result, style)
		_, _ = fmt.Fprintln(r.Out)
	}
	if r.Progress(""); len(*all) < n {
		return // another error ends the command
	}
	groups.Text(r.Out, style, shows)
	if text := report.UnroutedText(*all); text != "" && n > 1 && (!r.o.quiet || r.o.strict) {
		_, _ = fmt.Fprintf(r.Out, "%s\n\n", text)
	}
	for _, cause := range report.Causes(true, unjudged...) {
		if n > 1 {
			_, _ = fmt.Fprintf(r.Out, "%s%s\n", style.Paint(answer.Yellow, "not judged: "), printable.Lines(cause))
		}
	}
	_, _ = fmt.Fprintln(r.Out, report.Summary(*all))
	r.printAbsent(shown, hidden)
	if r.notLooked != "" {
		_, _ = fmt.Fprintln(r.Out, r.notLooked)
	}
}
