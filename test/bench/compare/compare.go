// Package compare runs the Go benchmarks of every route and compares them with a run before, or with another revision.
package compare

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// options are the flags.
type options struct {
	base, dir, pattern string
	save               bool
	rounds             int
	threshold          float64
}

// ErrWorse is the error of a run in which a benchmark is significantly worse by more than the threshold.
var ErrWorse = errors.New("worse than before")

// Command is `load compare`, in the root of the repository:
//
//	bin/load compare                  compare with the saved run, or save this one if there is none
//	bin/load compare -save            save this run instead of the one before
//	bin/load compare -base HEAD~5     compare with a revision, whose benchmarks run by turns with these
func Command(ctx context.Context, args []string, out, progress io.Writer) error {
	var o options
	set := flag.NewFlagSet("load compare", flag.ContinueOnError)
	set.SetOutput(progress)
	set.StringVar(&o.base, "base", "", "compare with this git revision, not with a saved run")
	set.StringVar(&o.dir, "dir", "bin/bench", "directory of the runs and of what is built for them")
	set.StringVar(&o.pattern, "bench", ".", "run the benchmarks that match this regular expression")
	set.BoolVar(&o.save, "save", false, "save this run, for the next to be compared with")
	set.IntVar(&o.rounds, "rounds", 8, "how often to run each benchmark: 4 or more")
	set.Float64Var(&o.threshold, "threshold", 5, "how many percent a benchmark may become slower, or allocate more objects")
	if err := set.Parse(args); err != nil {
		return err
	}
	switch {
	case set.NArg() > 0:
		return fmt.Errorf("unknown argument %q: there are only flags, see -h", set.Arg(0))
	case o.rounds < 4:
		return fmt.Errorf("-rounds %d: no difference is significant with fewer than 4", o.rounds)
	case o.base != "" && o.save:
		return errors.New("-base and -save: a run beside another revision is not saved")
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if o.base != "" {
		return o.withRevision(ctx, out, progress)
	}
	return o.withSaved(ctx, out, progress)
}

// withRevision measures a revision and the current source by turns.
func (o options) withRevision(ctx context.Context, out, progress io.Writer) error {
	tree, remove, err := checkout(ctx, o.base, o.dir)
	if err != nil {
		return err
	}
	defer remove()
	before, err := newSide(ctx, tree, o.dir, "before")
	if err != nil {
		return err
	}
	now, err := newSide(ctx, ".", o.dir, "now")
	if err != nil {
		return err
	}
	if err := rounds(ctx, o.rounds, o.pattern, progress, before, now); err != nil {
		return err
	}
	old, is := filepath.Join(o.dir, "base.txt"), filepath.Join(o.dir, "now.txt")
	if err := errors.Join(os.WriteFile(old, before.output.Bytes(), 0o644), os.WriteFile(is, now.output.Bytes(), 0o644)); err != nil {
		return err
	}
	return o.report(ctx, out, old, is)
}

// withSaved measures the current source and compares it with the saved run.
func (o options) withSaved(ctx context.Context, out, progress io.Writer) error {
	now, err := newSide(ctx, ".", o.dir, "now")
	if err != nil {
		return err
	}
	if err := rounds(ctx, o.rounds, o.pattern, progress, now); err != nil {
		return err
	}
	saved, file := filepath.Join(o.dir, "saved.txt"), filepath.Join(o.dir, "now.txt")
	_, err = os.Stat(saved)
	first := errors.Is(err, os.ErrNotExist)
	if first || o.save {
		file = saved
	}
	if err := os.WriteFile(file, now.output.Bytes(), 0o644); err != nil {
		return err
	}
	if first || o.save {
		_, err := fmt.Fprintf(out, "Saved as %s. Change something, and then compare with it:\n\n    make bench-compare\n\n"+
			"On a noisy machine, compare with a commit, by turns:\n\n    make bench-compare BASE=HEAD\n", saved)
		return err
	}
	if err := o.report(ctx, out, saved, file); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "To compare with this run from now on: make bench-compare SAVE=1")
	return err
}

// report prints what benchstat says, and the verdict.
func (o options) report(ctx context.Context, out io.Writer, before, now string) error {
	tool := exec.CommandContext(ctx, "go", "tool", "-modfile=test/bench/go.mod", "benchstat",
		"-filter", ".unit:(sec/op OR B/op OR allocs/op)", "before="+before, "now="+now)
	tool.Stdout, tool.Stderr = out, out
	if err := tool.Run(); err != nil {
		return fmt.Errorf("benchstat: %w", err)
	}
	old, err := parseFile(before)
	if err != nil {
		return err
	}
	is, err := parseFile(now)
	if err != nil {
		return err
	}
	v := judge(old, is, o.threshold)
	v.print(out, o.threshold)
	if len(v.worse) > 0 {
		return ErrWorse
	}
	return nil
}

func parseFile(file string) (results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all, err := parse(bytes.NewReader(text), file)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: no benchmarks in it; remove it, and run again", file)
	}
	return all, err
}
