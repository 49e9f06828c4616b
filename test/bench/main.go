// Command load makes usher's measurements. It runs on Linux only, in the root of the repository; `make load` builds it:
//
//	bin/load --write                    usher over TLS beside two yardsticks: docs/design/performance.md and its data
//	bin/load --run pod --before FILE    measure some reviews, and another binary of usher beside it
//	bin/load --quick                    a look, in a minute
//	bin/load growth --write             what a review costs while something grows
//	bin/load cluster --write            what usher costs in the path of a real API server, measured by bin/throughput
//	bin/load nodes --write              what amplified nodes cost it and etcd, likewise
//	bin/load compare                    Go benchmarks beside those of a run before, or of another revision
//	bin/load profile FILE [REGEXP]      write a CPU profile of usher under these reviews, or all
//	bin/load table docs/design/performance.json
//
// The exit code is 0 even if an aim is missed, 1 if compare finds something worse, and 2 on an error.
//
//	report/    statistics, and the files of a run
//	constant/  the program that usher is measured beside
//	cluster/   reports on the rounds of test/e2e/throughput
//	compare/   runs benchmarks by turns, and judges them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"usher.dev/usher/bench/cluster"
	"usher.dev/usher/bench/compare"
	"usher.dev/usher/bench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	switch err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, compare.ErrWorse):
		os.Exit(1)
	case err != nil && !errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(os.Stderr, "load: %v\n", err)
		os.Exit(2)
	}
}

// command runs the program. The subcommands plain and decoding are internal: load starts itself with them as a separate process.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	switch {
	case word == "growth":
		return growthCommand(ctx, args[1:], out, progress)
	case word == "cluster":
		return cluster.Command(ctx, args[1:], out, progress)
	case word == "nodes":
		return cluster.NodesCommand(ctx, args[1:], out, progress)
	case word == "compare":
		return compare.Command(ctx, args[1:], out, progress)
	case word == "profile" && (len(args) == 2 || len(args) == 3):
		return profile(ctx, args[1], strings.Join(args[2:], ""), progress)
	case word == "table" && len(args) == 2:
		return tableFile(args[1], out)
	case word == plain && len(args) == 2:
		return servePlain(args[1])
	case word == decoding && len(args) == 2:
		return decodeWatch(ctx, args[1], out)
	}
	return load(ctx, args, out, progress)
}

// load measures usher beside the yardsticks.
func load(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("load", flag.ContinueOnError)
	only := set.String("run", "", "measure only the reviews whose names match this regular expression")
	before := set.String("before", "", "measure this binary of usher, too, such as one of an earlier commit")
	return report.Run[Report]{
		Place: place, Section: summary, Print: markdown,
		Measure: func(ctx context.Context, o report.Options, progress io.Writer) (*Report, error) {
			return measureAll(ctx, o, *only, *before, progress)
		},
	}.Command(ctx, set, args, out, progress)
}

func tableFile(from string, out io.Writer) error {
	r, err := report.Read[Report](from)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, markdown(r))
	return err
}
