// Command chaos does to usher what happens to it over the years, one fault after the other, while pods are created
// through a real API server, and measures what each fault costs: `make chaos`. It writes the table in
// docs/operations.md.
//
//	main.go    flags, and one fault after the other
//	world.go   the control plane, usher, and its registration with Fail and with Ignore
//	load.go    the clients that create pods
//	faults.go  the list of faults; processes.go, certificates.go, clock.go, cluster.go, floods.go, and linux.go cause them
//	table.go   the outcome, as a table
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	only := set.String("only", "", "faults to cause, separated by commas (default: all)")
	write := set.String("write", "", "page whose table the outcome is written to (default: it is only printed)")
	if err := set.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	results, err := causeAll(ctx, chosen) // also after an error: the results so far
	fmt.Print(table(results, ""))
	if *write != "" {
		err = errors.Join(err, writeTable(*write, results))
	}
	return errors.Join(err, missed(results))
}

// choose returns the faults with those names, or all.
func choose(names string) ([]fault, error) {
	if names == "" {
		return faults, nil
	}
	var chosen []fault
	for name := range strings.SplitSeq(names, ",") {
		f, known := find(name)
		if !known {
			return nil, fmt.Errorf("-only %s: no such fault; there are %s", name, allNames())
		}
		chosen = append(chosen, f)
	}
	return chosen, nil
}

// causeAll causes the faults in one world. With an error it returns the results so far.
func causeAll(ctx context.Context, chosen []fault) ([]result, error) {
	starting, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	w, err := start(starting)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.cluster.Stop() }()
	var all []result
	for i, f := range chosen {
		fmt.Fprintf(os.Stderr, "%2d of %d  %s … ", i+1, len(chosen), f.name)
		r, err := w.cause(ctx, f)
		if err != nil {
			return all, fmt.Errorf("%s: %w\n%s", f.name, err, w.cluster.LogsOf(5, "usher", "kube-apiserver"))
		}
		fmt.Fprintln(os.Stderr, r)
		all = append(all, r)
	}
	return all, nil
}

// calm is the time for which pods are created before a fault, and after the last failure.
const calm = 2 * time.Second

// cause causes one fault under load, waits until all is well again, and returns what it cost.
func (w *world) cause(ctx context.Context, f fault) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute) // a million requests take minutes
	defer cancel()
	w.round++
	if err := w.healthy(ctx); err != nil {
		return result{}, fmt.Errorf("not healthy before it: %w", err)
	}
	l := w.startLoad(ctx, f.store)
	defer l.stop()
	kubetest.Pause(ctx, calm)
	began := time.Now()
	if err := f.cause(ctx, w); err != nil {
		return result{}, err
	}
	if err := w.healthy(ctx); err != nil {
		return result{}, fmt.Errorf("not healthy after it: %w", err)
	}
	kubetest.Pause(ctx, calm)
	return sum(f, began, l.end()), nil
}
