// Command cluster runs a Kubernetes cluster to try usher in, and needs only Go: `go run ./build && go run
// ./cluster`. It starts a real control plane, nodes that are real kubelets with a fake container runtime, and usher,
// all on loopback. It prints a walk-through, runs until Ctrl-C, and removes everything.
//
//	main.go   flags, signals and the exit
//	demo.go   starts everything, in order
//	guide.go  the printed walk-through
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	go cancelWithParent(ctx, cancel)
	d := &demo{options: o, out: os.Stdout, bold: isTerminal(os.Stdout)}
	defer d.close()
	err = d.start(ctx)
	if err == nil {
		fmt.Fprint(d.out, d.guide())
		err = d.stay(ctx)
	}
	asked := ctx.Err() != nil // even during the start; stop cancels ctx as well
	stop()                    // from now on, a second Ctrl-C ends this process at once; the harness cleans up even then
	if asked {
		return nil
	}
	return err
}

// options are the flags.
type options struct {
	policy string
	nodes  int
	record string
}

func parse(args []string) (o options, err error) {
	set := flag.NewFlagSet("cluster", flag.ContinueOnError)
	set.StringVar(&o.policy, "policy", "", "usher's policy `file`, read again when it changes "+
		"(default: a copy of deploy/overlays/demo/policy.yaml to edit)")
	set.IntVar(&o.nodes, "nodes", 2, "how many nodes, of 16 cores and 64Gi each")
	set.StringVar(&o.record, "record", "", "a new `file` to which usher writes every review, for usherctl playground --recording; usher then has one replica")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 || o.nodes < 1 || o.nodes > 50 {
		return o, fmt.Errorf("wants -policy FILE and -nodes from 1 to 50, not %q", strings.Join(args, " "))
	}
	if o.record != "" {
		if o.record, err = filepath.Abs(o.record); err != nil {
			return o, err
		}
	}
	if o.policy == "" {
		return o, nil
	}
	if o.policy, err = filepath.Abs(o.policy); err != nil {
		return o, err
	}
	_, err = os.Stat(o.policy)
	return o, err
}

// cancelWithParent stops the cluster when the process that started it is gone: `go run` does not forward SIGTERM.
func cancelWithParent(ctx context.Context, cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	for ctx.Err() == nil {
		if os.Getppid() != parent {
			cancel(errors.New("the process that started this one is gone"))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func isTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
