// Package command has the commands of usher: serve, webhooks, certs, show and version. A command is flags, a call and a print; what it
// calls is in server/. It works with the suites that it is given. What helps people around usher is another program, usherctl.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/lines"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server"
	"usher.dev/usher/server/suite"
)

// Program is usher with its suites. Serve serves, for the command serve alone: server.Run.
type Program struct {
	Suites  suite.List
	Version string
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	Serve   func(context.Context, server.Options) error
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
	if code != 2 {
		return code
	}
	reason := fmt.Sprintf("usher: %s\n", printable.Lines(err.Error()))
	if len(args) == 0 || args[0] != "serve" {
		_, _ = io.WriteString(p.Err, reason)
		return code
	}
	said := lines.New(p.Err, false, func(error) {}) // it ends, although nobody reads why
	defer closeSoon(said)
	_, _ = io.WriteString(said, reason)
	p.warnOfLockOut(said, args, err)
	return code
}

// next is the output of usher without arguments.
const next = `usher is an admission webhook service for Kubernetes. What would you like to do?

  serve the webhooks on this machine              usher serve
  print what registers them at an API server      usher webhooks
  read what curl brought back                     usher show

usher --help lists all commands. What helps around it is usherctl: learn webhooks, review manifests, test policies, examine a cluster.
`

// Root returns the program's command with all others below it.
func (p Program) Root() *cobra.Command {
	root := &cobra.Command{
		Use: "usher", Short: "usher is an admission webhook service for Kubernetes", Version: p.Version, Args: cli.NoArgs,
		Example: `  # what could you do next?
  usher`,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(p.Out, next)
			return err
		},
	}
	p.streams().Setup(root, p.Suites.Names())
	root.AddCommand(p.serveCommand(), p.webhooksCommand(), p.certsCommand(), p.showCommand(), p.streams().VersionCommand("usher", p.Version))
	root.AddCommand(movedCommands()...)
	p.completion().AddTo(root)
	return root
}
