// Command load measures what a review costs: the real usher over TLS, beside a server that answers a constant and one that
// works as most webhooks do. Linux only, from the root of the source, where `make load` builds it:
//
//	bin/load [--quick] [--out docs/performance.json]       measure bin/usher
//	bin/load plot docs/performance.json docs/performance.svg
//	bin/load table docs/performance.json
//
// The exit code is 0 also when an aim is missed, 2 on an error.
package main

import (
	"context"
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
		_, _ = fmt.Fprintf(os.Stderr, "load: %v\n", err)
		os.Exit(2)
	}
}

// command is the program. The words constant and plain are for itself: it starts them as processes of their own.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	switch {
	case word == "plot" && len(args) == 3:
		return plotFile(args[1], args[2])
	case word == "table" && len(args) == 2:
		return tableFile(args[1], out)
	case (word == constant || word == plain) && len(args) == 2:
		return serveYardstick(word, args[1])
	}
	return load(ctx, args, out, progress)
}

// load measures, tells and keeps.
func load(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("load", flag.ContinueOnError)
	set.SetOutput(progress)
	quick := set.Bool("quick", false, "short: fewer rounds of fewer reviews, for a look and not for the docs")
	file := set.String("out", "", "write the data to this file, as JSON")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: nothing, plot DATA SVG, or table DATA", set.Arg(0))
	}
	how := fullPlan
	if *quick {
		how = quickPlan
	}
	report, err := measureAll(ctx, how, progress)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, table(report)); err != nil {
		return err
	}
	if *file == "" {
		return nil
	}
	return writeReport(*file, report)
}

func plotFile(from, to string) error {
	report, err := readReport(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, []byte(plot(report)), 0o644)
}

func tableFile(from string, out io.Writer) error {
	report, err := readReport(from)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, markdown(report))
	return err
}
