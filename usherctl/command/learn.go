package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/usherctl/learn"
	"usher.dev/usher/usherctl/report"
)

// learnOptions are the flags of usherctl learn.
type learnOptions struct {
	dir, export, output, kubeconfig string
	all, verbose, apply             bool
}

const learnHelp = `A course about admission webhooks, in the terminal. Without LESSON, list the lessons. With LESSON, a number or a part of a name, make a
folder for it, and print its text.

Each lesson sets a task: change the files in its folder, and ask ` + "`usherctl learn check`" + ` what is missing. Lessons need no cluster, except
the one about rescuing a cluster, which needs that of ` + "`make cluster`" + `.`

// learnCommand is `usherctl learn`.
func (p Program) learnCommand() *cobra.Command {
	o := &learnOptions{}
	c := &cobra.Command{Use: "learn [LESSON]", Short: "a course about admission webhooks: lessons with tasks, checks and hints", Long: learnHelp, Args: cobra.MaximumNArgs(1),
		Example: `  # which lessons are there?
  usherctl learn
  # begin the first one
  usherctl learn 1`}
	c.PersistentFlags().StringVar(&o.dir, "dir", "usher-lessons", "directory with a folder for each lesson that was begun")
	c.Flags().StringVar(&o.export, "export", "", "write all lessons into this directory, for a teacher: class/ has the start states, teacher/ the hints and solutions")
	c.RunE = func(c *cobra.Command, args []string) error {
		err := p.learn(*o, courseOf(c, *o), args)
		if best := nearest.Of(strings.Join(args, " "), cli.NamesBelow(c)); err != nil && best != "" {
			return fmt.Errorf("%w; did you mean usherctl learn %s?", err, best)
		}
		return err
	}
	check := lessonCommand(o, "check", "say in one line what is missing; exit code 1 if anything is", p.learnCheck)
	check.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "also say what the check found")
	check.Flags().BoolVar(&o.all, "all", false, "check all lessons that were begun")
	check.Flags().StringVarP(&o.output, "output", "o", "text", "text, json or junit")
	check.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "for lessons that need a cluster: how to reach its API server (default: as kubectl does)")
	solution := lessonCommand(o, "solution", "print the files of the solution", p.learnSolution)
	solution.Flags().BoolVar(&o.apply, "apply", false, "write them into the folder of the lesson")
	c.AddCommand(check, lessonCommand(o, "hint", "print the next hint", p.learnHint),
		lessonCommand(o, "reset", "start the lesson again: changes in its folder are lost", p.learnReset), solution)
	return c
}

// courseOf returns the course of --dir, or without it of the working directory.
func courseOf(c *cobra.Command, o learnOptions) learn.Course {
	if c.Flags().Changed("dir") {
		return learn.Course{Dir: o.dir}
	}
	return learn.Here(o.dir)
}

// lessonCommand returns a command about one lesson, named by the argument, or else the current one.
func lessonCommand(o *learnOptions, name, short string, do func(context.Context, learnOptions, learn.Course, []learn.Lesson) error) *cobra.Command {
	example := fmt.Sprintf("  # about your current lesson\n  usherctl learn %[1]s\n  usherctl learn %[1]s 1", name)
	return &cobra.Command{Use: name + " [LESSON]", Short: short, Args: cobra.MaximumNArgs(1), Example: example, RunE: func(c *cobra.Command, args []string) error {
		all, err := learn.Lessons()
		if err != nil {
			return err
		}
		course := courseOf(c, *o)
		if o.all {
			return do(c.Context(), *o, course, course.Begun(all))
		}
		if len(args) == 0 {
			current, err := course.Current()
			if err != nil {
				return err
			}
			args = []string{current}
		}
		lesson, err := learn.Find(all, args[0])
		if err != nil {
			return err
		}
		return do(c.Context(), *o, course, []learn.Lesson{lesson})
	}}
}

// learn lists the lessons, begins one, or exports all.
func (p Program) learn(o learnOptions, course learn.Course, args []string) error {
	all, err := learn.Lessons()
	if err != nil {
		return err
	}
	if o.export != "" {
		return p.learnExport(o.export, all)
	}
	if len(args) == 0 {
		return p.listLessons(course, all)
	}
	lesson, err := learn.Find(all, args[0])
	if err != nil {
		return err
	}
	fresh, err := course.Begin(lesson)
	if err == nil {
		err = learn.WriteSchema(course.Dir, p.PolicySchema().JSON())
	}
	if err != nil {
		return err
	}
	return p.printLesson(course, lesson, fresh)
}

func (p Program) listLessons(course learn.Course, all []learn.Lesson) error {
	for _, l := range all {
		needs := ""
		if l.Needs != "" {
			needs = ", needs a " + l.Needs
		}
		_, _ = fmt.Fprintf(p.Out, "%2d  %-5s  %s (%d minutes%s)\n", l.Number, course.Progress(l), l.Title, l.Minutes, needs)
	}
	next := slices.IndexFunc(all, func(l learn.Lesson) bool { return course.Progress(l) != "done" })
	switch {
	case next < 0:
		_, _ = fmt.Fprint(p.Out, "\nAll lessons are done.\n")
	case next == 0 && course.Progress(all[0]) == "":
		_, _ = fmt.Fprint(p.Out, "\n`usherctl learn 1` begins the first lesson.\n")
	default:
		_, _ = fmt.Fprintf(p.Out, "\nThe next: `usherctl learn %d`\n", all[next].Number)
	}
	return nil
}

// printLesson prints the text of a lesson, and where its folder is.
func (p Program) printLesson(course learn.Course, l learn.Lesson, fresh bool) error {
	style := p.style()
	_, _ = fmt.Fprintf(p.Out, "%s\n\n%s\n", style.Heading(fmt.Sprintf("%d. %s", l.Number, l.Title)), strings.TrimRight(l.Text, "\n"))
	begun := "Your files are"
	if !fresh {
		begun = "You have begun before; your files are still"
	}
	next := "\n    cd " + report.Word(course.Folder(l))
	if script := l.Script("start.sh"); script != "" {
		next += "\n    sh start.sh"
	}
	_, err := fmt.Fprintf(p.Out, "\n%s in %s:\n%s\n    usherctl learn check     # what is missing?\n    usherctl learn hint\n", begun, course.Folder(l), next)
	if _, absent := exec.LookPath("usherctl"); absent != nil {
		_, err = fmt.Fprint(p.Out, "\nusher is not on your PATH: `make install` in its checkout puts it there.\n")
	}
	return err
}

// learnCheck checks lessons. The error ends the command with exit code 1 if anything is missing.
func (p Program) learnCheck(ctx context.Context, o learnOptions, course learn.Course, lessons []learn.Lesson) error {
	if !slices.Contains([]string{"text", "json", "junit"}, o.output) {
		return fmt.Errorf("-o %s: must be text, json or junit", o.output)
	}
	if len(lessons) == 0 {
		return errors.New("no lesson is begun here; `usherctl learn 1` begins the first")
	}
	tools := p.learnTools(o.kubeconfig)
	var reports []report.Report
	for _, l := range lessons {
		verdict, err := course.Check(ctx, l, tools)
		reports = append(reports, learn.ReportOf(l, verdict, err))
		if o.output == "text" {
			p.printVerdict(l, verdict, err, o.verbose)
		}
	}
	if o.output != "text" {
		if err := p.printReports(o.output, "usherctl learn", reports); err != nil {
			return err
		}
	}
	return exit(report.ExitOf(reports), "a lesson could not be checked")
}

func (p Program) printVerdict(l learn.Lesson, v learn.Verdict, err error, verbose bool) {
	style := p.style()
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(p.Out, "%s %s: %v\n", style.Bad("not checked"), l.Name, err)
	case v.Done():
		next := fmt.Sprintf("the next: usherctl learn %d", l.Number+1)
		if all, err := learn.Lessons(); err == nil && l.Number == len(all) {
			next = "it is the last one; usherctl learn lists all"
		}
		_, _ = fmt.Fprintf(p.Out, "%s %s; %s\n", style.Good("done"), l.Name, next)
	default:
		_, _ = fmt.Fprintf(p.Out, "%s %s: %s\n", style.Bad("not yet"), l.Name, v.Missing)
		if verbose {
			_, _ = fmt.Fprintf(p.Out, "    %s\n", strings.ReplaceAll(v.Detail, "\n", "\n    "))
		}
	}
}

func (p Program) learnHint(_ context.Context, _ learnOptions, course learn.Course, lessons []learn.Lesson) error {
	for _, l := range lessons {
		text, n, err := course.Hint(l)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(p.Out, "Hint %d of %d: %s\n", n, len(l.Hints), text)
	}
	return nil
}

func (p Program) learnReset(_ context.Context, _ learnOptions, course learn.Course, lessons []learn.Lesson) error {
	for _, l := range lessons {
		if err := course.Reset(l); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(p.Out, "%s is as at its start\n", course.Folder(l))
	}
	return nil
}

// learnSolution prints or applies the solution.
func (p Program) learnSolution(_ context.Context, o learnOptions, course learn.Course, lessons []learn.Lesson) error {
	for _, l := range lessons {
		files, err := l.Solution()
		if err != nil {
			return err
		}
		if o.apply {
			if err := course.Solve(l); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(p.Out, "%s has the solution now:\n\n", course.Folder(l))
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			_, _ = fmt.Fprintf(p.Out, "%s\n%s\n", p.style().Heading(name), files[name])
		}
		if script := l.Script("solution.sh"); script != "" {
			_, _ = fmt.Fprintf(p.Out, "%s\n%s\n", p.style().Heading("solution.sh"), script)
		}
	}
	return nil
}

func (p Program) learnExport(dir string, all []learn.Lesson) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("--export %s: the directory is not empty", dir)
	}
	err := learn.Export(dir, all)
	for _, part := range []string{"class", "teacher"} {
		err = errors.Join(err, learn.WriteSchema(filepath.Join(dir, part), p.PolicySchema().JSON()))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "%s has the lessons of the class, %s the hints and solutions.\n"+
		"To check what a learner has done: usherctl learn check --all --dir LEARNER -o junit\n", filepath.Join(dir, "class"), filepath.Join(dir, "teacher"))
	return err
}
