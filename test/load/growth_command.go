package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	docs := set.String("docs", "docs", "directory of these files")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("growth: unknown argument %q: there are only flags, see -h", set.Arg(0))
	}
	report, err := readOrMeasureGrowth(ctx, *draw, *quick, *docs, progress)
	if err != nil {
		return err
	}
	if *write || *draw {
		return report.write(*docs)
	}
	_, err = io.WriteString(out, report.markdown())
	return err
}

func readOrMeasureGrowth(ctx context.Context, draw, quick bool, docs string, progress io.Writer) (*Growth, error) {
	if draw {
		return readGrowth(filepath.Join(docs, growthData))
	}
	how := fullGrowth
	if quick {
		how = quickGrowth
	}
	return measureGrowth(ctx, how, pin(), subjects(quick), progress)
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
