// Package command has the commands of usher, which Program.Root lists. A command is flags, a call and a
// print; what it calls is in server/ or in a folder below. It works with the suites that it is given.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"usher.dev/usher/command/review"
	"usher.dev/usher/internal/lines"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
)

// Program is usher with its suites.
type Program struct {
	Suites  suite.List
	Version string
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
}

// Run runs the command that the arguments name, and returns the exit code. 0: done, or allowed; 1: denied; 2: an error, also if the
// output could not be written.
func (p Program) Run(ctx context.Context, args []string) int {
	out := &output{Writer: p.Out}
	p.Out = out
	root := p.Root()
	root.SetArgs(args)
	if len(args) > 0 && args[0] == "completion" {
		checkShells(root)
	}
	err := out.withWriteError(root.ExecuteContext(ctx))
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errDenied):
		return 1
	}
	reason := fmt.Sprintf("usher: %s\n", printable.Lines(err.Error()))
	if len(args) == 0 || args[0] != "serve" {
		_, _ = io.WriteString(p.Err, reason)
		return 2
	}
	said := lines.New(p.Err, false, func(error) {}) // it ends, although nobody reads why
	defer closeSoon(said)
	_, _ = io.WriteString(said, reason)
	p.warnOfLockOut(said, args, err)
	return 2
}

// errDenied ends a command with exit code 1: it did its work, and the verdict is no, or a comparison finds a difference.
var errDenied = errors.New("denied")

// exit returns the error that ends a command with an exit code: nil, errDenied, or what could not be judged.
func exit(code review.Exit, unjudged string) error {
	switch code {
	case review.Fine:
		return nil
	case review.Refused:
		return errDenied
	}
	return errors.New(unjudged)
}

// printReports prints reports for other programs: as json, or as junit with the name of the command as its suite.
func (p Program) printReports(output, command string, reports []review.Report) error {
	if output == "junit" {
		return review.JUnit(p.Out, command, reports)
	}
	return review.WriteJSON(p.Out, reports)
}

// Root returns the program's command with all others below it.
func (p Program) Root() *cobra.Command {
	root := &cobra.Command{
		Use: "usher", Short: "usher is an admission webhook service for Kubernetes", Version: p.Version, Args: noArgs,
		Example: `  # what could you do next?
  usher`,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(p.Out, next)
			return err
		},
	}
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	cobra.EnableCommandSorting = false
	root.SetUsageFunc(p.usage)
	root.SetFlagErrorFunc(unknownFlag)
	addGroup(root, "Serve and deploy", p.serveCommand(), p.webhooksCommand(), p.certsCommand())
	addGroup(root, "Write and test policies", p.reviewCommand(), p.testCommand(), p.stepsCommand(), p.schemaCommand(), p.showCommand(), p.newCommand())
	addGroup(root, "Look into a cluster", p.doctorCommand(), p.explainCommand(), p.quotaCommand())
	addGroup(root, "Learn", p.learnCommand(), p.playgroundCommand())
	root.AddCommand(p.versionCommand())
	p.complete(root)
	return root
}

func (p Program) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print the version", Args: noArgs, Example: "  usher version", RunE: func(*cobra.Command, []string) error {
		_, err := fmt.Fprintln(p.Out, p.Version)
		return err
	}}
}
