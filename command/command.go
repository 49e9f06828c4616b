// Package command has the commands of usher: serve, webhooks, certs, show and version. A command is flags, a call and a print; what it
// calls is in server/. It works with the suites that it is given. What helps people around usher is another program, usherctl.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/lines"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
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

// next is what usher prints without arguments.
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
	root.AddCommand(p.serveCommand(), p.webhooksCommand(), p.certsCommand(), p.showCommand(), p.versionCommand())
	root.AddCommand(movedCommands()...)
	p.completion().AddTo(root)
	return root
}

// movedCommands are those of usherctl that were usher's.
func movedCommands() (all []*cobra.Command) {
	for _, name := range []string{"review", "test", "steps", "schema", "new", "doctor", "explain", "quota", "learn", "playground"} {
		all = append(all, &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("this is `usherctl %s` now; make install, and each release, has both programs", name)
		}})
	}
	return all
}

func (p Program) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print the version", Args: cli.NoArgs, Example: "  usher version", RunE: func(*cobra.Command, []string) error {
		_, err := fmt.Fprintln(p.Out, p.Version)
		return err
	}}
}

// showCommand is `usher show`: what curl brought back, readable.
func (p Program) showCommand() *cobra.Command {
	return &cobra.Command{Use: "show [FILE]", Short: "print the AdmissionReview that a server returned, read from a file or standard input, in readable form",
		Example: `  # while usher serves in another terminal
  curl -sS --cacert .state/ca.crt -H 'Content-Type: application/json' -d @samples/reviews/validate-pods/denied-names.json https://127.0.0.1:9443/validate-pods | usher show`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			in, err := p.streams().OpenFile(append(files, "-")[0])
			if err != nil {
				return err
			}
			defer func() { _ = in.Close() }()
			allowed, err := answer.Print(in, p.Out, p.streams().Style())
			if err == nil && !allowed {
				return cli.ErrDenied
			}
			return err
		}}
}

func (p Program) streams() cli.Streams { return cli.Streams{In: p.In, Out: p.Out, Err: p.Err} }

// completion says how a shell completes the values of flags.
func (p Program) completion() cli.Completion {
	return cli.Completion{Flags: map[string]cobra.CompletionFunc{
		"suite": cli.Values(p.Suites.Names()...), "fail-open": flags.CompletePaths(p.Suites), "fail-closed": flags.CompletePaths(p.Suites),
		"feature-gates": flags.CompleteGates(p.Suites), "require-sections": flags.CompleteSections(p.Suites),
		"exclude-namespace": flags.CompleteNamespaces,
		"cluster":           cli.Values("files", "api"), "certs": cli.Values("local", "managed"), "log-format": cli.Values("auto", "json", "text"),
		"auth": cli.Values(callers.Off, callers.Log, callers.Enforce), "inject": cli.Values(webhooks.CertManager, webhooks.OpenShift),
		"config": cli.Manifests, "compare": cli.Manifests,
		"cluster-dir": cli.Directories, "out": cli.Directories, "state-dir": cli.Directories, "cert-dir": cli.Directories, "static-dir": cli.Directories,
	}, Outputs: map[string]cobra.CompletionFunc{"init": cli.Values("files", "secret")}}
}
