package policytest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// Result is the result of a case.
type Result struct {
	Case   *Case
	Report report.Report
	got    map[string]any // what each member of expect is compared with; nil if the case could not be run
	sent   sent
}

// Run runs cases in parallel, and returns the results in the order of the cases. done is called after each, with how many
// are done.
func (p Program) Run(ctx context.Context, all []*Case, done func(int)) []Result {
	w, settings := p.newInstances(ctx), make([]setting, len(all))
	defer w.close()
	results, problems := make([]Result, len(all)), make([]error, len(all))
	made := map[setting]*instance{}
	for i, c := range all {
		if problems[i] = c.Err; c.Err == nil {
			settings[i], problems[i] = w.settingOf(c)
		}
		if problems[i] == nil && made[settings[i]] == nil {
			made[settings[i]] = w.under(settings[i])
		}
	}
	tellOnce(all, settings, made, problems)
	count, counting := 0, sync.Mutex{}
	each(len(all), func(i int) {
		results[i] = runIn(ctx, made[settings[i]], all[i], problems[i])
		results[i].suggest(p.Command)
		counting.Lock()
		defer counting.Unlock()
		count++
		done(count)
	})
	return results
}

// tellOnce replaces the problem of a setting, such as an invalid policy, by a reference to the first case that has it.
func tellOnce(all []*Case, settings []setting, made map[setting]*instance, problems []error) {
	first := map[string]*Case{}
	for i, c := range all {
		if problems[i] != nil || made[settings[i]].err == nil {
			continue
		}
		text := made[settings[i]].err.Error()
		if before := first[text]; before != nil {
			problems[i] = fmt.Errorf("as for case %s", before.Name)
			continue
		}
		first[text] = c
	}
}

// unseen says what to correct where no verdict of the policy came about: expecting this would hide that nothing is tested.
var unseen = map[report.Verdict]string{
	report.Skipped:   "no route has looked at the object: correct the case, its cluster or its gates; if this is meant, write verdict: skipped",
	report.Errored:   "the object could not be reviewed: correct the policy or the case; if this is meant, write verdict: error",
	report.NotJudged: "add what is asked for to the cluster of the case; if this is meant, write verdict: not judged",
}

// unseen returns what to correct if another verdict was expected, and none of the policy came about.
func (r *Result) unseen() string {
	if !slices.ContainsFunc(r.Report.Findings, func(f report.Finding) bool { return f.ID == "verdict" }) {
		return ""
	}
	got, _ := r.got["verdict"].(string)
	return unseen[report.Verdict(got)]
}

// suggest adds to the last finding that it would end how what is new is accepted: as words, since a command is pasted unread. Where no
// verdict of the policy came about, or nothing is refused any more, it says what to correct.
func (r *Result) suggest(command string) {
	if correct := r.unseen(); correct != "" {
		i := slices.IndexFunc(r.Report.Findings, func(f report.Finding) bool { return f.ID == "verdict" })
		r.Report.Findings[i].Look = correct
		return
	}
	if expected := r.Case.expect["verdict"].value; r.got["verdict"] == string(report.Allowed) &&
		(expected == string(report.Denied) || expected == string(report.Invalid)) {
		i := slices.IndexFunc(r.Report.Findings, func(f report.Finding) bool { return f.ID == "verdict" })
		r.Report.Findings[i].Look = "a refusal is expected, and the object is allowed: correct the policy or the case; --update accepts it"
		return
	}
	for i := range slices.Backward(r.Report.Findings) {
		f := &r.Report.Findings[i]
		if e, found := r.Case.expect[f.ID]; found && !e.contains && f.Severity == report.Error {
			name := strings.ReplaceAll(regexp.QuoteMeta(r.Case.Name), "'", ".") // in quotes of a shell
			f.Look = fmt.Sprintf("correct the policy or the case; if what is new is meant, this accepts it: %s --update --run '^%s$' '%s'",
				command, name, filepath.ToSlash(filepath.Dir(r.Case.Place.File)))
			return
		}
	}
}

// each calls do for 0 to n-1, on all processors.
func each(n int, do func(int)) {
	var wait sync.WaitGroup
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wait.Wait()
}

// runIn runs a case in its instance. err is why it cannot be.
func runIn(ctx context.Context, w *instance, c *Case, err error) Result {
	if err == nil {
		err = w.err
	}
	if err == nil {
		err = c.checkSteps(w.steps)
	}
	if err != nil {
		return c.broken(err)
	}
	run, err := newRun(ctx, w, c)
	if err != nil {
		return c.broken(err)
	}
	r := Result{c, run.report, run.got, run.sent}
	for _, line := range requests.UnknownFields(run.sent.File().JSON, run.report.Unknown, w.Suites) {
		r.Report.Findings = append(r.Report.Findings, report.Finding{ID: "unknown-field", Severity: report.Info, Object: run.report.Source, Message: line})
	}
	r.Report.Findings = append(r.Report.Findings, run.compare()...)
	if run.report.Verdict == report.Allowed && c.Once == "" {
		r.Report.Findings = append(r.Report.Findings, run.again()...)
	}
	r.Report.Verdict = report.VerdictOf(r.Report.Findings)
	return r
}

// checkSteps returns an error if the case expects something of a step that does not exist.
func (c *Case) checkSteps(known []string) error {
	steps, _ := c.expect["steps"].value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		if slices.Contains(known, name) {
			continue
		}
		return fmt.Errorf("expect.steps: there is no step %s%s", name, cmp.Or(nearest.Question(name, known), "; `usherctl steps` lists them"))
	}
	return nil
}

// broken is the result of a case that could not be run.
func (c *Case) broken(err error) Result {
	return Result{Case: c, Report: Broken(c.Name, c.where(c.Place.Line), "case", err)}
}

// Broken returns the report of what could not be judged.
func Broken(name, source, id string, err error) report.Report {
	return report.Examined(report.Subject{Case: name, Source: source},
		report.Finding{ID: id, Severity: report.Unknown, Object: source, Message: err.Error()})
}

// run is one case while it is run.
type run struct {
	ctx    context.Context
	w      *instance
	c      *Case
	sent   sent
	report report.Report
	got    map[string]any
}

// newRun sends the object of a case through the routes.
func newRun(ctx context.Context, w *instance, c *Case) (*run, error) {
	sent, err := c.body(w)
	if err != nil {
		return nil, err
	}
	report, err := w.review(ctx, sent, c.Path, sent.body, false)
	if err != nil {
		return nil, err
	}
	r := &run{ctx: ctx, w: w, c: c, sent: sent, report: report}
	r.report.Case, r.report.Source = c.Name, c.where(c.Place.Line)
	if r.got, err = actual(r.report); err != nil {
		return nil, err
	}
	return r, nil
}

// send sends another object in the place of the first.
func (r *run) send(object []byte) (report.Report, error) {
	body, err := requests.WithObject(r.sent.body, object)
	if err != nil {
		return report.Report{}, err
	}
	return r.w.review(r.ctx, r.sent, r.c.Path, body, true)
}
