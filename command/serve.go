package command

import (
	"context"
	"io"
	stdlog "log"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/lines"
	"usher.dev/usher/server"
)

// serveCommand is `usher serve`. It goes on when its output cannot be written: the audit log does, once it can be written again.
func (p Program) serveCommand() *cobra.Command {
	p.Out = cli.Bare(p.Out)
	o := serveOptions{Options: server.Options{Version: p.Version, Stdout: p.Out}}
	c := &cobra.Command{Use: "serve [flags]", Short: "serve the admission webhooks", Args: cli.NoArgs,
		Example: `  # on this machine, where samples/cluster stands for a cluster
  usher serve --cluster-dir samples/cluster
  # the core suite alone, with your policy, which is reloaded when it changes
  usher serve --suite core --config samples/policy.yaml --cluster-dir samples/cluster`}
	o.addTo(c.Flags(), p.Suites)
	suites := flags.AddSuites(c, p.Suites, true, io.Discard) // the server logs warnings
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.parse(c.Flags(), suites); err != nil {
			return err
		}
		return p.serve(c.Context(), o)
	}
	return c
}

// serve runs a server until ctx ends, by a signal or with the terminal. A second signal ends the process at once. It goes on when
// nobody reads its output.
func (p Program) serve(ctx context.Context, o serveOptions) error {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := untilSignal(ctx)
	defer stop()
	endWithTerminal(ctx, p.Err, stop)
	o.Lines = lines.New(p.Err, false, func(error) {})
	defer closeSoon(o.Lines)
	o.Log = newLogger(o.logFormat, p.Err, o.Lines)
	stdlog.SetFlags(0)
	stdlog.SetOutput(warnings{o.Log}) // what libraries log
	o.Record = o.record.opener(o.Log)
	o.Serving = func(at server.Addresses) {
		out := lines.New(p.Out, false, func(error) {})
		greet(out, o.Options, at)
		closeSoon(out)
	}
	return p.Serve(ctx, o.Options)
}
