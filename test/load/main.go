// Command load measures the cost of a review: usher over TLS, compared with a server that returns a constant answer and
// one that works like most webhooks. It runs on Linux only, in the root of the repository; `make load` builds it:
//
//	bin/load --write                    measure bin/usher, and write docs/performance.md, its data and its picture
//	bin/load --run pod --before FILE    measure some reviews, and another binary of usher beside it
//	bin/load --quick                    a look, in a minute
//	bin/load growth --write             what a review costs while something grows
//	bin/load profile FILE [REGEXP]      write a CPU profile of usher under these reviews, or all
//	bin/load table docs/performance.json
//
// The exit code is 0 even if an aim is missed, and 2 on an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
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

// command runs the program. The subcommands constant and plain are internal: load starts itself with them as separate
// processes.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	switch {
	case word == "growth":
		return growthCommand(ctx, args[1:], out, progress)
	case word == "profile" && (len(args) == 2 || len(args) == 3):
		return profile(ctx, args[1], strings.Join(args[2:], ""), progress)
	case word == "table" && len(args) == 2:
		return tableFile(args[1], out)
	case (word == constant || word == plain) && len(args) == 2:
		return serveYardstick(word, args[1])
	}
	return load(ctx, args, out, progress)
}

// load measures, prints the result and writes the report.
func load(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("load", flag.ContinueOnError)
	set.SetOutput(progress)
	quick := set.Bool("quick", false, "short: fewer rounds of fewer reviews, for a look and not for the docs")
	only := set.String("run", "", "measure only the reviews whose names match this regular expression")
	before := set.String("before", "", "measure this binary of usher, too, such as one of an earlier commit")
	file := set.String("out", "", "write the data to this file, as JSON")
	write := set.Bool("write", false, "write performance.json and .svg, and the table in performance.md")
	draw := set.Bool("draw", false, "do not measure: draw and write again from performance.json")
	docs := set.String("docs", "docs", "directory of these files")
	if err := set.Parse(args); err != nil {
		return err
	}
	names, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: nothing, growth, profile FILE [REGEXP], or table DATA", set.Arg(0))
	}
	if *draw {
		report, err := readReport(filepath.Join(*docs, dataFile))
		if err != nil {
			return err
		}
		return report.write(*docs)
	}
	how := fullPlan
	if *quick {
		how = quickPlan
	}
	report, err := measureAll(ctx, how, names, *before, progress)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, table(report)); err != nil {
		return err
	}
	if *write {
		return report.write(*docs)
	}
	if *file == "" {
		return nil
	}
	return writeReport(*file, report)
}

func tableFile(from string, out io.Writer) error {
	report, err := readReport(from)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, markdown(report))
	return err
}
