package learn

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
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/schema"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl learn.
type options struct {
	dir, export, output, kubeconfig string
	all, verbose, apply, yes        bool
}

const help = `A course about admission webhooks, in the terminal. Without LESSON, list the lessons. With LESSON, a number or a part of a name, make a
folder for it, and print its text.

Each lesson sets a task: change the files in its folder, and ask ` + "`usherctl learn check`" + ` what is missing. Lessons need no cluster, except
one that needs that of ` + "`make cluster`" + `, and one that needs that of ` + "`usherctl lab`" + `. Those about a webhook of your own build and run
its program, with Go, or ask a running one whose address you write into the file url.`

// Command is `usherctl learn`.
func Command(env tool.Env) *cobra.Command {
	o := &options{}
	c := &cobra.Command{Use: "learn [LESSON]", Short: "a course about admission webhooks: lessons with tasks, checks and hints", Long: help,
		Args: cobra.MaximumNArgs(1),
		Example: `  # which lessons are there?
  usherctl learn
  # begin the first one
  usherctl learn 1`}
	c.PersistentFlags().StringVar(&o.dir, "dir", "usher-lessons", "directory with a folder for each lesson that was begun")
	c.Flags().StringVar(&o.export, "export", "", "write all lessons into this directory, for a teacher: class/ has the start states, teacher/ the "+
		"hints and solutions")
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(env, *o, courseOf(c, *o), args)
		if best := nearest.Of(strings.Join(args, " "), cli.NamesBelow(c)); err != nil && best != "" {
			return fmt.Errorf("%w; did you mean usherctl learn %s?", err, best)
		}
		return err
	}
	check := lessonCommand(env, o, "check", "say in one line what is missing; exit code 1 if anything is", checkLessons)
	check.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "also print all that the check saw")
	check.Flags().BoolVar(&o.all, "all", false, "check all lessons that were begun")
	check.Flags().StringVarP(&o.output, "output", "o", "text", "text, json or junit")
	check.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "for lessons that need a cluster: how to reach its API server (default: as kubectl does)")
	solution := lessonCommand(env, o, "solution", "print the files of the solution", printSolutions)
	solution.Flags().BoolVar(&o.apply, "apply", false, "write them into the folder of the lesson")
	reset := lessonCommand(env, o, "reset", "start the lesson again: changes in its folder are lost; it asks before it deletes files of your own",
		resetLessons)
	reset.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	c.AddCommand(check, lessonCommand(env, o, "hint", "print the next hint", printHints), reset, solution)
	return c
}

// Complete completes the name of a lesson.
func Complete(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	lessons, _ := Lessons()
	for _, l := range lessons {
		if len(args) == 0 {
			names = append(names, l.Name+"\t"+l.Title)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// courseOf returns the course of --dir, or without it of the working directory.
func courseOf(c *cobra.Command, o options) Course {
	if c.Flags().Changed("dir") {
		return Course{Dir: o.dir}
	}
	return Here(o.dir)
}

// lessonFunc does something about lessons.
type lessonFunc func(context.Context, tool.Env, options, Course, []Lesson) error

// lessonCommand returns a command about one lesson, named by the argument, or else the current one.
func lessonCommand(env tool.Env, o *options, name, short string, do lessonFunc) *cobra.Command {
	example := fmt.Sprintf("  # about your current lesson\n  usherctl learn %[1]s\n  usherctl learn %[1]s 1", name)
	return &cobra.Command{Use: name + " [LESSON]", Short: short, Args: cobra.MaximumNArgs(1), Example: example,
		RunE: func(c *cobra.Command, args []string) error {
			all, err := Lessons()
			if err != nil {
				return err
			}
			course := courseOf(c, *o)
			if o.all {
				return do(c.Context(), env, *o, course, course.Begun(all))
			}
			if len(args) == 0 {
				current, err := course.Current()
				if err != nil {
					return err
				}
				args = []string{current}
			}
			lesson, err := Find(all, args[0])
			if err != nil {
				return err
			}
			return do(c.Context(), env, *o, course, []Lesson{lesson})
		}}
}

// run lists the lessons, begins one, or exports all.
func run(env tool.Env, o options, course Course, args []string) error {
	all, err := Lessons()
	if err != nil {
		return err
	}
	if o.export != "" {
		return exportAll(env, o.export, all)
	}
	if len(args) == 0 {
		return listLessons(env, course, all)
	}
	lesson, err := Find(all, args[0])
	if err != nil {
		return err
	}
	fresh, err := course.Begin(lesson)
	if err == nil {
		err = WriteSchema(course.Dir, schema.PolicyOf(env).JSON())
	}
	if err != nil {
		return err
	}
	return printLesson(env, course, lesson, fresh)
}

func listLessons(env tool.Env, course Course, all []Lesson) error {
	for _, l := range all {
		needs := ""
		if l.Needs != "" {
			needs = ", needs a " + l.Needs
		}
		_, _ = fmt.Fprintf(env.Out, "%2d  %-5s  %s (%d minutes%s)\n", l.Number, course.Progress(l), l.Title, l.Minutes, needs)
	}
	next := slices.IndexFunc(all, func(l Lesson) bool { return course.Progress(l) != "done" })
	switch {
	case next < 0:
		_, _ = fmt.Fprint(env.Out, "\nAll lessons are done.\n")
	case next == 0 && course.Progress(all[0]) == "":
		_, _ = fmt.Fprint(env.Out, "\n`usherctl learn 1` begins the first lesson.\n")
	default:
		_, _ = fmt.Fprintf(env.Out, "\nThe next: `usherctl learn %d`\n", all[next].Number)
	}
	return nil
}

// printLesson prints the text of a lesson, and where its folder is.
func printLesson(env tool.Env, course Course, l Lesson, fresh bool) error {
	style := env.Style()
	_, _ = fmt.Fprintf(env.Out, "%s\n\n%s\n", style.Heading(fmt.Sprintf("%d. %s", l.Number, l.Title)), strings.TrimRight(l.Text, "\n"))
	begun := "Your files are"
	if !fresh {
		begun = "You have begun before; your files are still"
	}
	next := "\n    cd " + report.Word(course.Folder(l))
	if script := l.Script("start.sh"); script != "" {
		next += "\n    sh start.sh"
	}
	_, err := fmt.Fprintf(env.Out, "\n%s in %s:\n%s\n    usherctl learn check     # what is missing?\n    usherctl learn hint\n", begun,
		course.Folder(l), next)
	if _, absent := exec.LookPath("usherctl"); absent != nil {
		_, err = fmt.Fprint(env.Out, "\nusher is not on your PATH: `make install` in its checkout puts it there.\n")
	}
	return err
}

// checkLessons checks lessons. The error ends the command with exit code 1 if anything is missing.
func checkLessons(ctx context.Context, env tool.Env, o options, course Course, lessons []Lesson) error {
	if !slices.Contains([]string{"text", "json", "junit"}, o.output) {
		return fmt.Errorf("-o %s: must be text, json or junit", o.output)
	}
	if len(lessons) == 0 {
		return errors.New("no lesson is begun here; `usherctl learn 1` begins the first")
	}
	tools := ToolsOf(env, o.kubeconfig)
	tools.Programs = true
	var reports []report.Report
	for _, l := range lessons {
		verdict, err := course.Check(ctx, l, tools)
		reports = append(reports, ReportOf(l, verdict, err))
		if o.output == "text" {
			printVerdict(env, l, verdict, err, o.verbose)
		}
	}
	if o.output != "text" {
		if err := report.Write(env.Out, o.output, "usherctl learn", slices.Values(reports)); err != nil {
			return err
		}
	}
	return report.ExitOf(reports).Err("a lesson could not be checked")
}

func printVerdict(env tool.Env, l Lesson, v Verdict, err error, verbose bool) {
	style := env.Style()
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(env.Out, "%s %s: %v\n", style.Bad("not checked"), l.Name, err)
	case v.Done():
		next := fmt.Sprintf("the next: usherctl learn %d", l.Number+1)
		if all, err := Lessons(); err == nil && l.Number == len(all) {
			next = "it is the last one; usherctl learn lists all"
		}
		_, _ = fmt.Fprintf(env.Out, "%s %s; %s\n", style.Good("done"), l.Name, next)
	default:
		_, _ = fmt.Fprintf(env.Out, "%s %s: %s\n", style.Bad("not yet"), l.Name, v.Missing)
		saw := v.Saw
		if verbose {
			saw = v.Detail
		}
		if saw != "" {
			_, _ = fmt.Fprintf(env.Out, "    %s\n", strings.ReplaceAll(saw, "\n", "\n    "))
		}
	}
}

func printHints(_ context.Context, env tool.Env, _ options, course Course, lessons []Lesson) error {
	for _, l := range lessons {
		text, n, err := course.Hint(l)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(env.Out, "Hint %d of %d: %s\n", n, len(l.Hints), text)
	}
	return nil
}

func resetLessons(_ context.Context, env tool.Env, o options, course Course, lessons []Lesson) error {
	for _, l := range lessons {
		own, err := course.Own(l)
		if err != nil {
			return err
		}
		if len(own) > 0 {
			env.Say("Files of your own in " + course.Folder(l) + ", which a reset deletes:")
			for _, name := range own {
				env.Say("  " + name)
			}
			if err := env.Confirm(o.yes, "Delete them?"); err != nil {
				return err
			}
		}
		if err := course.Reset(l); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(env.Out, "%s is as at its start\n", course.Folder(l))
	}
	return nil
}

// printSolutions prints or applies the solution.
func printSolutions(_ context.Context, env tool.Env, o options, course Course, lessons []Lesson) error {
	for _, l := range lessons {
		files, err := l.Solution()
		if err != nil {
			return err
		}
		if o.apply {
			if err := course.Solve(l); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(env.Out, "%s has the solution now:\n\n", course.Folder(l))
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			_, _ = fmt.Fprintf(env.Out, "%s\n%s\n", env.Style().Heading(name), files[name])
		}
		if script := l.Script("solution.sh"); script != "" {
			_, _ = fmt.Fprintf(env.Out, "%s\n%s\n", env.Style().Heading("solution.sh"), script)
		}
	}
	return nil
}

func exportAll(env tool.Env, dir string, all []Lesson) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("--export %s: the directory is not empty", dir)
	}
	err := Export(dir, all)
	for _, part := range []string{"class", "teacher"} {
		err = errors.Join(err, WriteSchema(filepath.Join(dir, part), schema.PolicyOf(env).JSON()))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Out, "%s has the lessons of the class, %s the hints and solutions.\n"+
		"To check what a learner has done: usherctl learn check --all --dir LEARNER -o junit\n", filepath.Join(dir, "class"), filepath.Join(dir, "teacher"))
	return err
}
