package policytest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/command/flags"
	"usher.dev/usher/config"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl test.
type options struct {
	dirs, suites              []string
	config, cluster, gates    string
	answers                   string
	run, output               string
	update, coverage, verbose bool
	chosen                    *regexp.Regexp
	command                   string // as it was typed, for suggestions
}

const help = `Test policies: review the objects of cases as ` + "`usherctl review`" + ` does, and compare what happens to them with what is expected.

Cases are in files named case.yaml, or whose names end in .case.yaml, in the directories and below them; several in a file are
separated by ---. A case names an object and what should happen to it:

  manifest: pod.yaml          # a file beside the case, or the object itself
  config: ../policy.yaml      # default: --config
  expect:
    verdict: denied           # allowed, denied, invalid, not judged, error or skipped
    code: 403

What expect names is compared as a whole. The rest is not compared, except that nothing else may happen to an allowed object: it is sent a
second time, and a third time with a foreign sidecar. docs/testing-policies.md describes every key.

The exit code is 0 if all cases pass, 1 if one fails, and 2 if something could not be judged: a case with an unknown key, a file that no case
names, no cases at all.`

// Command is `usherctl test`.
func Command(env tool.Env) *cobra.Command {
	var o options
	c := &cobra.Command{Use: "test [flags] DIR...", Short: "test policies: compare what happens to objects with what is expected", Long: help,
		Example: `  # do the cases of a directory pass?
  usherctl test samples/tests/team-labels
  # which parts of the policy does no case cover?
  usherctl test --coverage samples/tests/team-labels`,
		Args: func(_ *cobra.Command, dirs []string) error {
			if len(dirs) == 0 {
				return errors.New("name a directory with cases; `usherctl test --help` shows how to write one")
			}
			return nil
		}}
	o.addTo(c.Flags(), env.Suites.Names())
	suites := flags.AddSuites(c, env.Suites, false, env.Err)
	env.Suites = suites.List
	c.RunE = func(c *cobra.Command, dirs []string) (err error) {
		if _, err = suites.Parsed("files"); err != nil {
			return err
		}
		o.dirs, o.gates, o.command = dirs, suites.Gates, lineOf(c)
		if err := o.check(); err != nil {
			return err
		}
		return testDirs(c.Context(), env, o)
	}
	return c
}

func (o *options) addTo(set *pflag.FlagSet, suites []string) {
	set.SortFlags = false
	set.StringVar(&o.run, "run", "", "run only the cases whose names this regular expression matches")
	set.BoolVar(&o.update, "update", false, "rewrite what failing cases expect, in their files, and print what is changed")
	set.BoolVar(&o.coverage, "coverage", false, "also list the steps and parts of policies that no case covers")
	set.StringVarP(&o.output, "output", "o", "text", "text, json or junit")
	set.BoolVarP(&o.verbose, "verbose", "v", false, "also show the cases that pass, one per line")
	set.StringVar(&o.config, "config", "", "policy file of cases that name none (default: the embedded policy)")
	set.StringVar(&o.cluster, "cluster-dir", "", "directory of manifests that stand for the cluster of cases that name none (default: an empty cluster)")
	set.StringVar(&o.answers, "answers", "",
		"file with the answers of webhooks that are not usher's, for cases that name none (default: what they are called for is not judged)")
	set.StringSliceVar(&o.suites, "suite", suites, "suites whose routes are called, for cases that name none")
}

// lineOf returns the command with the flags that say what cases are run under.
func lineOf(c *cobra.Command) string {
	line := c.CommandPath()
	c.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"run", "update", "coverage", "output", "verbose"}, f.Name) {
			line += fmt.Sprintf(" --%s=%s", f.Name, strings.Trim(f.Value.String(), "[]"))
		}
	})
	return line
}

func (o *options) check() (err error) {
	if o.chosen, err = regexp.Compile(o.run); err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	switch {
	case !slices.Contains([]string{"text", "json", "junit"}, o.output):
		return fmt.Errorf("-o %s: must be text, json or junit", o.output)
	case o.coverage && o.output == "junit":
		return errors.New("--coverage goes with -o text or -o json")
	case o.coverage && o.run != "":
		return errors.New("--coverage is of all cases: leave out --run")
	}
	return nil
}

// testDirs runs the cases of directories and prints what became of each.
func testDirs(ctx context.Context, env tool.Env, o options) error {
	found := Find(o.dirs, o.config, o.cluster, o.answers)
	chosen := slices.DeleteFunc(slices.Clone(found.Cases), func(c *Case) bool { return !o.chosen.MatchString(c.Name) })
	if len(chosen) == 0 && len(found.Problems) == 0 {
		return fmt.Errorf("--run %s: matches none of %d cases; `usherctl test -v` prints their names", o.run, len(found.Cases))
	}
	program := Program{Suites: env.Suites, Config: o.config, Cluster: o.cluster, Answers: o.answers, Gates: o.gates, SuiteNames: o.suites,
		Now: time.Now(), Command: o.command, Warn: warnOfPolicies(env)}
	results := program.Run(ctx, chosen, func(done int) {
		if done == len(chosen) {
			env.Progress("")
		} else if done%20 == 0 && len(chosen) >= 100 {
			env.Progress(fmt.Sprintf("%d of %d cases", done, len(chosen)))
		}
	})
	if o.update {
		var err error
		if results, err = updateTests(ctx, env, program, results, o.output == "text"); err != nil {
			return err
		}
	}
	reports := found.Problems
	for _, r := range results {
		reports = append(reports, r.Report)
	}
	if err := printTests(env, reports, coverageOf(ctx, program, results, o), o); err != nil {
		return err
	}
	return report.ExitOf(reports).Err("some cases could not be judged")
}

// updateTests rewrites what failing cases expect, and returns the results of running them again.
func updateTests(ctx context.Context, env tool.Env, program Program, failing []Result, text bool) ([]Result, error) {
	lines, err := Update(failing)
	to := env.Err
	if text {
		to = env.Out
	}
	for _, line := range lines {
		_, _ = fmt.Fprintln(to, line)
	}
	if err != nil {
		return nil, err
	}
	again, err := Reread(failing)
	if err != nil {
		return nil, err
	}
	return program.Run(ctx, again, func(int) {}), nil
}

// warnOfPolicies returns a function that prints the warnings of each policy file once.
func warnOfPolicies(env tool.Env) func(string, *config.Policy) {
	warned := map[string]bool{}
	return func(file string, policy *config.Policy) {
		if !warned[file] {
			warned[file] = true
			env.WarnOfPolicy(file, policy)
		}
	}
}

// coverageOf returns a report of the coverage if it is asked for.
func coverageOf(ctx context.Context, program Program, results []Result, o options) []report.Report {
	if !o.coverage {
		return nil
	}
	return []report.Report{program.Cover(ctx, results).Report()}
}

// printTests prints the cases that did not pass, all with --verbose, and the coverage.
func printTests(env tool.Env, reports, coverage []report.Report, o options) error {
	if o.output != "text" {
		return report.Write(env.Out, o.output, "usherctl test", slices.Values(append(reports, coverage...)))
	}
	style := env.Style()
	for _, r := range reports {
		if r.Verdict == report.Passed && (o.verbose || len(r.Findings) > 0) {
			r.Calls, r.NotCalled, r.Unknown, r.Plugins, r.Hint = nil, nil, nil, nil, "" // one line
			report.Text(env.Out, r, style)
		}
		if r.Verdict != report.Passed {
			r.Calls = slices.Clone(r.Calls)
			for i := range r.Calls {
				r.Calls[i].Message = "" // the findings have it
			}
			report.Text(env.Out, r, style)
			_, _ = fmt.Fprintln(env.Out)
		}
	}
	_, err := fmt.Fprintln(env.Out, report.CaseSummary(reports))
	for _, r := range coverage {
		for _, line := range r.Notes[0].Lines {
			_, _ = fmt.Fprintln(env.Out, line)
		}
	}
	return err
}
