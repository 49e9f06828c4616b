// Package command is the root of usherctl's commands: what helps people around usher, without a running server. Each command lies in the
// folder of its tool.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/lab"
	"usher.dev/usher/usherctl/learn"
	"usher.dev/usher/usherctl/playground"
	"usher.dev/usher/usherctl/policytest"
	"usher.dev/usher/usherctl/probe"
	"usher.dev/usher/usherctl/replay"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/rules"
	"usher.dev/usher/usherctl/scaffold"
	"usher.dev/usher/usherctl/schema"
	"usher.dev/usher/usherctl/steps"
	"usher.dev/usher/usherctl/tool"
)

// Run runs the command that the arguments name, and returns the exit code. 0: done, or allowed; 1: denied; 2: an error, also if the
// output could not be written.
func Run(ctx context.Context, env tool.Env, args []string) int {
	out := &cli.Output{Writer: env.Out}
	env.Out = out
	root := Root(env)
	root.SetArgs(args)
	if len(args) > 0 && args[0] == "completion" {
		cli.CheckShells(root)
	}
	err := out.WithWriteError(root.ExecuteContext(ctx))
	code := cli.ExitCode(err)
	if code == 2 {
		_, _ = fmt.Fprintf(env.Err, "usherctl: %s\n", printable.Lines(err.Error()))
	}
	return code
}

// next is the output of usherctl without arguments.
const next = `usherctl helps with admission webhooks, and with usher. What would you like to do?

  learn what a webhook is, by tasks               usherctl learn 1
  see what becomes of an object, as you type it   usherctl playground
  see what would become of your manifests         usherctl review FILE
  find out what is wrong with those of a cluster  usherctl doctor

Only the last needs a cluster. usherctl --help lists all commands.
`

// Root returns the program's command with all others below it.
func Root(env tool.Env) *cobra.Command {
	root := &cobra.Command{
		Use: "usherctl", Short: "usherctl helps with admission webhooks, and with usher", Version: env.Version, Args: cli.NoArgs,
		Example: `  # what could you do next?
  usherctl`,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(env.Out, next)
			return err
		},
	}
	env.Setup(root, env.Suites.Names())
	addGroup(root, "Write and test policies",
		review.Command(env, replay.Run), policytest.Command(env), steps.Command(env), schema.Command(env, policytest.Schema),
		rules.Command(env), scaffold.Command(env))
	addGroup(root, "Look into a cluster", doctor.Command(env), explain.Command(env), probe.Command(env))
	addGroup(root, "Learn", learn.Command(env), playground.Command(env), lab.Command(env))
	root.AddCommand(env.VersionCommand("usherctl", env.Version))
	completion(env).AddTo(root)
	return root
}

// addGroup adds commands that help lists together.
func addGroup(to *cobra.Command, title string, commands ...*cobra.Command) {
	to.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	to.AddCommand(commands...)
}
