// Command usher is an admission webhook service for Kubernetes. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(run(context.Background(), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// stdio is what a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// command is one word after usher.
type command struct {
	name, usage, doc string
	run              func(ctx context.Context, args []string, io stdio) error
}

func commands() []command {
	return []command{
		{"serve", "usher serve [flags]", "serve the admission webhooks", serve},
		{"review", "usher review [flags] FILE...", "send manifests or AdmissionReviews through the chains, without a server", reviewFiles},
		{"show", "usher show < ANSWER", "print an AdmissionReview that a server answered, readable", showAnswer},
		{"webhooks", "usher webhooks [flags]", "print the webhook configurations for an API server", printWebhooks},
		{"steps", "usher steps", "list every route and its steps in order", printSteps},
		{"certs", "usher certs init [flags]", "make a CA and a serving certificate", makeCerts},
		{"version", "usher version", "print the version", printVersion},
	}
}

// run is the program: it gives the exit code. 0: done, or allowed; 1: denied; 2: an error.
func run(ctx context.Context, args []string, io stdio) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		printUsage(io.out)
		return 0
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return exitCode(c.run(ctx, args[1:], io), io.err)
		}
	}
	_, _ = fmt.Fprintf(io.err, "usher: there is no command %q; `usher help` lists them\n", args[0])
	return 2
}

// errDenied ends a command with exit code 1: it did its work, and the verdict is no.
var errDenied = errors.New("denied")

func exitCode(err error, to io.Writer) int {
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return 0
	case errors.Is(err, errDenied):
		return 1
	}
	_, _ = fmt.Fprintf(to, "usher: %v\n", err)
	return 2
}

func printUsage(to io.Writer) {
	_, _ = fmt.Fprint(to, "usher is an admission webhook service for Kubernetes.\n\n")
	for _, c := range commands() {
		_, _ = fmt.Fprintf(to, "  %-10s %s\n", c.name, c.doc)
	}
	_, _ = fmt.Fprint(to, "\n`usher COMMAND --help` lists the flags of a command.\n")
}

func printVersion(_ context.Context, _ []string, io stdio) error {
	_, err := fmt.Fprintln(io.out, version)
	return err
}

// flags makes a command's flag set; its --help goes to where answers go.
func flags(c string, io stdio) *pflag.FlagSet {
	set := pflag.NewFlagSet("usher "+c, pflag.ContinueOnError)
	set.SetOutput(io.out)
	set.SortFlags = false
	set.Usage = func() {
		for _, known := range commands() {
			if known.name == c {
				_, _ = fmt.Fprintf(io.out, "%s\n\n  %s\n\n%s", known.doc, known.usage, set.FlagUsages())
			}
		}
	}
	return set
}

// parseAll parses the flags of a command that takes no other arguments.
func parseAll(set *pflag.FlagSet, args []string) error {
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("%q: %s takes no arguments beside its flags", set.Arg(0), set.Name())
	}
	return nil
}
