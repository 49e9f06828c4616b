// Command throughput measures what usher costs in the path of a real API server: `make load ARGS=cluster`. Clients create
// pods without a webhook, with one that answers a constant, and with usher, in turn; then nodes report their status with
// and without amplification. It needs Linux, and runs in test/e2e:
//
//	go run ./build
//	go run ./throughput [-quick] [-out FILE] [-write PAGE]     measure: 15 minutes
//	go run ./throughput table DATA                             the tables of a run
//	go run ./throughput page DATA PAGE                         write the tables into a page, between its marks
//	go run ./throughput charts DATA                            its charts, as JSON for test/plot/draw
//
//	main.go      commands and flags
//	measure.go   the plan, and one round after the other
//	world.go     the control plane, usher and the constant webhook
//	ways.go      the ways in which pods are created, and their registration
//	constant.go  the constant webhook
//	pods.go      clients that create pods
//	nodes.go     nodes that report their status
//	etcd.go      empties etcd's history between rounds
//	usage.go     CPU time of processes, and etcd's counters
//	report.go    the data of a run; table.go, charts.go: what is made of it; stats.go
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

// command runs the program. The subcommand constant is internal: throughput starts itself with it as another process.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	switch {
	case word == "table" && len(args) == 2:
		return withReport(args[1], func(r *report) error {
			_, err := io.WriteString(out, markdown(r))
			return err
		})
	case word == "page" && len(args) == 3:
		return withReport(args[1], func(r *report) error { return writePage(args[2], r) })
	case word == "charts" && len(args) == 2:
		return withReport(args[1], func(r *report) error { return json.NewEncoder(out).Encode(charts(r)) })
	case word == "constant":
		return serveConstant(args[1:])
	}
	return load(ctx, args, out, progress)
}

// load measures, and writes what was asked for.
func load(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("throughput", flag.ContinueOnError)
	set.SetOutput(progress)
	quick := set.Bool("quick", false, "short: one round with fewer cells, for a look and not for the docs")
	file := set.String("out", "", "write the data to this file, as JSON")
	page := set.String("write", "", "page whose tables are replaced")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: nothing, table DATA, page DATA PAGE, or charts DATA", set.Arg(0))
	}
	how := fullPlan
	if *quick {
		how = quickPlan
	}
	r, err := measure(ctx, how, progress)
	if r == nil {
		return err
	}
	r.Quick = *quick
	if _, err := io.WriteString(out, markdown(r)); err != nil {
		return err
	}
	if *file != "" { // also after an error: what was measured before it
		err = errors.Join(err, writeReport(*file, r))
	}
	if *page != "" && err == nil {
		err = writePage(*page, r)
	}
	return err
}

func withReport(file string, do func(*report) error) error {
	r, err := readReport(file)
	if err != nil {
		return err
	}
	return do(r)
}
