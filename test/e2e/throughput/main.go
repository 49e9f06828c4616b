// Command throughput measures what usher costs in the path of a real API server. Clients create pods without a webhook, with
// one that answers usher's patch as a constant, and with usher, in turn. Or, with -nodes, nodes report their status with and without
// amplification. It needs Linux, and what `go run ./build` makes. `make load ARGS=cluster` and `ARGS=nodes` run it and make tables
// of it: it prints a line of JSON for each round.
//
//	main.go      flags
//	measure.go   the plan, and one round after the other
//	world.go     the control plane, and usher
//	ways.go      the ways in which pods are created, and their registration
//	constant.go  constant webhooks that answer as usher does
//	pods.go      clients that create pods
//	nodes.go     nodes, and what a kubelet writes
//	heartbeats.go  rounds in which nodes report their status
//	etcd.go      empties etcd's history between rounds
//	usage.go     CPU time of processes, and etcd's counters
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

// command runs the program.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("throughput", flag.ContinueOnError)
	set.SetOutput(progress)
	quick := set.Bool("quick", false, "short: one round with fewer cells, for a look and not for the docs")
	nodes := set.Bool("nodes", false, "measure nodes, and not pods")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: there are only flags, see -h", set.Arg(0))
	}
	lines := json.NewEncoder(out)
	return measure(ctx, planFor(*nodes, *quick), func(r record) error { return lines.Encode(r) })
}
