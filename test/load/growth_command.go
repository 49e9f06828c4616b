package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	svg "usher.dev/usher/test/plot"
)

// growthCommand is `load growth`: it measures, prints the tables, and with -write brings the docs up to date.
func growthCommand(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("load growth", flag.ContinueOnError)
	set.SetOutput(progress)
	quick := set.Bool("quick", false, "short: fewer and smaller sizes, for a look and not for the docs")
	write := set.Bool("write", false, "write performance-growth.json and .svg, and the tables in performance.md")
	draw := set.Bool("draw", false, "do not measure: draw and write again from performance-growth.json")
	only := set.String("run", "", "measure only the subjects that match this regular expression; with -write, the others stay")
	docs := set.String("docs", "docs", "directory of these files")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("growth: unknown argument %q: there are only flags, see -h", set.Arg(0))
	}
	what, err := chosen(subjects(*quick), *only)
	if err != nil {
		return err
	}
	if *draw {
		what = nil
	}
	report, err := measureOrRead(ctx, what, *quick, *docs, progress)
	if err != nil {
		return err
	}
	if *write && *only != "" {
		if err := report.addOthers(filepath.Join(*docs, growthData)); err != nil {
			return err
		}
	}
	if *write || *draw {
		return report.write(*docs)
	}
	_, err = io.WriteString(out, report.markdown())
	return err
}

// measureOrRead reads the data of the run before if nothing is to be measured.
func measureOrRead(ctx context.Context, what []subject, quick bool, docs string, progress io.Writer) (*Growth, error) {
	if len(what) == 0 {
		return readGrowth(filepath.Join(docs, growthData))
	}
	how := fullGrowth
	if quick {
		how = quickGrowth
	}
	return measureGrowth(ctx, how, pin(), what, progress)
}

// chosen returns the subjects whose names match.
func chosen(all []subject, pattern string) ([]subject, error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("growth: -run: %w", err)
	}
	some := slices.DeleteFunc(all, func(s subject) bool { return !match.MatchString(s.name) })
	if len(some) == 0 {
		return nil, fmt.Errorf("growth: -run %s: matches nothing that is measured", pattern)
	}
	return some, nil
}

// addOthers adds what only an earlier run measured, of the same version of usher on the same kind of machine.
func (g *Growth) addOthers(file string) error {
	before, err := readGrowth(file)
	if err != nil {
		return err
	}
	if before.Head.Usher != g.Head.Usher || before.Head.CPU != g.Head.CPU {
		return fmt.Errorf("%s is of usher %s on %s: measure everything, without -run", file, before.Head.Usher, before.Head.CPU)
	}
	var all []Point
	for i, p := range before.Points {
		measured := g.of(p.Subject)
		switch {
		case len(measured) == 0:
			all = append(all, p)
		case i == 0 || before.Points[i-1].Subject != p.Subject:
			all = append(all, measured...)
		}
	}
	g.Head, g.Points = before.Head, all
	return nil
}

// The files of a growth run, in docs.
const growthData, growthPlot, growthPage = "performance-growth.json", "performance-growth.svg", "performance.md"

// The marks around the tables in the page.
const growthBegins, growthEnds = "<!-- growth: begin -->\n", "<!-- growth: end -->"

// write writes the data, the plots and the tables.
func (g *Growth) write(docs string) error {
	page := filepath.Join(docs, growthPage)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), growthBegins)
	_, after, ends := strings.Cut(rest, growthEnds)
	if !begins || !ends {
		return fmt.Errorf("%s: has no lines %q and %q", page, strings.TrimSpace(growthBegins), growthEnds)
	}
	data, err := g.encode()
	if err != nil {
		return err
	}
	for file, content := range map[string]string{
		page:                            before + growthBegins + g.markdown() + growthEnds + after,
		filepath.Join(docs, growthData): string(data),
		filepath.Join(docs, growthPlot): svg.Page(g.charts()...),
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
