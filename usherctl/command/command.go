// Package command has the commands of usherctl: what helps people around usher, without a running server. A command is flags, a call and a
// print; what it calls is in the folder of the tool.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
)

// Program is usherctl, for the suites of a usher.
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
	out := &cli.Output{Writer: p.Out}
	p.Out = out
	root := p.Root()
	root.SetArgs(args)
	if len(args) > 0 && args[0] == "completion" {
		cli.CheckShells(root)
	}
	err := out.WithWriteError(root.ExecuteContext(ctx))
	code := cli.ExitCode(err)
	if code == 2 {
		_, _ = fmt.Fprintf(p.Err, "usherctl: %s\n", printable.Lines(err.Error()))
	}
	return code
}

// exit returns the error that ends a command with an exit code: nil, cli.ErrDenied, or what could not be judged.
func exit(code report.Exit, unjudged string) error {
	switch code {
	case report.Fine:
		return nil
	case report.Refused:
		return cli.ErrDenied
	}
	return errors.New(unjudged)
}

// printReports prints reports for other programs: as json, or as junit with the name of the command as its suite.
func (p Program) printReports(output, command string, reports []report.Report) error {
	if output == "junit" {
		return report.JUnit(p.Out, command, reports)
	}
	return report.WriteJSON(p.Out, reports)
}

// next is what usherctl prints without arguments.
const next = `usherctl helps with admission webhooks, and with usher. What would you like to do?

  learn what a webhook is, by tasks               usherctl learn 1
  see what becomes of an object, as you type it   usherctl playground
  see what would become of your manifests         usherctl review FILE
  find out what is wrong with those of a cluster  usherctl doctor

None but the last needs a cluster. usherctl --help lists all commands.
`

// Root returns the program's command with all others below it.
func (p Program) Root() *cobra.Command {
	root := &cobra.Command{
		Use: "usherctl", Short: "usherctl helps with admission webhooks, and with usher", Version: p.Version, Args: cli.NoArgs,
		Example: `  # what could you do next?
  usherctl`,
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
	root.SetUsageFunc(cli.Usage(p.Suites.Names()))
	root.SetFlagErrorFunc(cli.UnknownFlag)
	cli.AddGroup(root, "Write and test policies", p.reviewCommand(), p.testCommand(), p.stepsCommand(), p.schemaCommand(), p.newCommand())
	cli.AddGroup(root, "Look into a cluster", p.doctorCommand(), p.explainCommand(), p.quotaCommand())
	cli.AddGroup(root, "Learn", p.learnCommand(), p.playgroundCommand())
	root.AddCommand(p.versionCommand())
	p.completion().AddTo(root)
	return root
}

func (p Program) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print the version", Args: cli.NoArgs, Example: "  usherctl version", RunE: func(*cobra.Command, []string) error {
		_, err := fmt.Fprintln(p.Out, p.Version)
		return err
	}}
}

func (p Program) streams() cli.Streams { return cli.Streams{In: p.In, Out: p.Out, Err: p.Err} }

// style returns how text is printed: in color on a terminal.
func (p Program) style() report.Style { return report.Style{Style: p.streams().Style()} }
