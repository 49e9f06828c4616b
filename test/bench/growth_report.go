package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"usher.dev/usher/bench/report"
)

// Growth is the data of a growth run.
type Growth struct {
	Head   report.Head `json:"run"`
	Points []Point     `json:"points"`
}

// Point is the result for one size of a subject.
type Point struct {
	Subject  string  `json:"subject"`
	Count    int     `json:"count"`
	Ready    float64 `json:"ready"`              // s from the start of the process until it was ready, on one core
	StartCPU float64 `json:"startCPU"`           // s, of the process until then
	Heap     int64   `json:"heap"`               // bytes after garbage collection, ready and without reviews
	Peak     int64   `json:"peak"`               // bytes, resident, until it was ready
	PlainCPU float64 `json:"plainCPU,omitempty"` // s, of a process that only decodes the pods of the same watch
	Costs    []Cost  `json:"costs,omitempty"`
}

// Cost is the cost of one review.
type Cost struct {
	Line    string  `json:"line"`
	CPU     float64 `json:"cpu"`     // µs of the process
	Objects float64 `json:"objects"` // allocated
}

// of returns the points of a subject.
func (g *Growth) of(subject string) (points []Point) {
	for _, p := range g.Points {
		if p.Subject == subject {
			points = append(points, p)
		}
	}
	return points
}

// growthPlace is where docs has the run.
var growthPlace = report.Place{Data: "performance-growth.json", Page: "performance.md",
	Begins: "<!-- growth: begin -->", Ends: "<!-- growth: end -->"}

// growthCommand is `load growth`.
func growthCommand(ctx context.Context, args []string, out, progress io.Writer) error {
	set := flag.NewFlagSet("load growth", flag.ContinueOnError)
	only := set.String("run", "", "measure only the subjects that match this regular expression; with -write, the others stay")
	return report.Run[Growth]{
		Place: growthPlace, Section: (*Growth).markdown,
		Measure: func(ctx context.Context, o report.Options, progress io.Writer) (*Growth, error) {
			return measureChosen(ctx, o, *only, progress)
		},
	}.Command(ctx, set, args, out, progress)
}

// measureChosen measures the subjects that match. With -write, the others of an earlier run stay.
func measureChosen(ctx context.Context, o report.Options, only string, progress io.Writer) (*Growth, error) {
	what, err := chosen(subjects(o.Quick), only)
	if err != nil {
		return nil, err
	}
	how := fullGrowth
	if o.Quick {
		how = quickGrowth
	}
	g, err := measureGrowth(ctx, how, pin(), what, progress)
	if err == nil && o.Write && only != "" {
		err = g.addOthers(filepath.Join(o.Docs, growthPlace.Data))
	}
	return g, err
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
	before, err := report.Read[Growth](file)
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

func (g *Growth) lineNames(subject string) (names []string) {
	for _, p := range g.of(subject) {
		for _, c := range p.Costs {
			if !slices.Contains(names, c.Line) {
				names = append(names, c.Line)
			}
		}
	}
	return names
}

// cost returns the cost of a line, or nil.
func (p *Point) cost(line string) *Cost {
	for i := range p.Costs {
		if p.Costs[i].Line == line {
			return &p.Costs[i]
		}
	}
	return nil
}

// noMatch is a review for which nothing matches. The tables leave it out: it grows no more than one with a match.
const noMatch = "none matches"

// markdown returns the tables between the markers.
func (g *Growth) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", g.Head.Headline())
	b.WriteString("| what grows | review | from – to | CPU µs |\n|---|---|---|---:|\n")
	for _, subject := range g.names() {
		points := g.of(subject)
		first, last := points[0], points[len(points)-1]
		for _, name := range g.lineNames(subject) {
			if name == noMatch {
				continue
			}
			a, z := first.cost(name), last.cost(name)
			fmt.Fprintf(&b, "| %s | %s | %s – %s | %s – %s |\n", subject, name, report.Number(float64(first.Count)), report.Number(float64(last.Count)),
				report.Number(a.CPU), report.Number(z.CPU))
		}
	}
	b.WriteString("\n| state of | MB for each 1,000 | largest | peak MB until ready | CPU s until ready | × plain decoding |\n|---|---:|---:|---:|---:|---:|\n")
	for _, subject := range g.names() {
		points := g.of(subject)
		last := points[len(points)-1]
		plain := ""
		if last.PlainCPU > 0 {
			plain = report.Number(report.Ratio(last.StartCPU, last.PlainCPU))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", subject, report.Number(g.perThousand(subject)), report.Number(float64(last.Count)),
			report.Number(mega(last.Peak)), report.Number(last.StartCPU), plain)
	}
	return b.String()
}

// names returns the subjects of the tables, in the order of the run, without flat quotas: a tree costs more.
func (g *Growth) names() (names []string) {
	for _, p := range g.Points {
		if p.Subject != "flat quotas" && !slices.Contains(names, p.Subject) {
			names = append(names, p.Subject)
		}
	}
	return names
}

// perThousand returns the MB of state that 1,000 more of a subject take.
func (g *Growth) perThousand(subject string) float64 {
	points := g.of(subject)
	first, last := points[0], points[len(points)-1]
	return report.Ratio(mega(last.Heap-first.Heap)*1000, float64(last.Count-first.Count))
}
