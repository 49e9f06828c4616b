package main

import (
	"fmt"
	"slices"
	"strings"

	svg "usher.dev/usher/test/plot"
)

// charts returns the plots: the cost of reviews and their allocations beside each other, then what pods cost, then memory.
func (g *Growth) charts() []svg.Chart {
	all := slices.Concat(
		g.costCharts("Profiles", "ClusterColocationProfiles", "profiles", "broad profiles"),
		g.costCharts("Overrides", "overrides of the policy", "overrides", "broad overrides"),
		g.costCharts("Quotas", "ElasticQuotas", "flat quotas", "quota tree"),
		g.podCharts(),
		[]svg.Chart{{Title: "Memory", X: svg.Axis{Title: "objects of the kind", Log: true}, Y: svg.Axis{Title: "MB of state"}, Lines: []svg.Line{
			g.line("profiles", "profiles", heapOf), g.line("overrides", "overrides", heapOf), g.line("quotas", "quota tree", heapOf),
		}}})
	all[len(all)-1].Note = g.Head.where()
	return all
}

// costCharts returns two charts of what reviews cost while a subject grows.
func (g *Growth) costCharts(title, axis string, subjects ...string) []svg.Chart {
	x := svg.Axis{Title: axis, Log: true}
	return []svg.Chart{
		{Title: title + ": CPU", X: x, Y: svg.Axis{Title: "µs per review, over TLS", Log: true}, Lines: g.costLines(cpuOf, subjects...)},
		{Title: title + ": allocations", X: x, Y: svg.Axis{Title: "objects per review", Log: true}, Lines: g.costLines(objectsOf, subjects...)},
	}
}

func (g *Growth) podCharts() []svg.Chart {
	x := svg.Axis{Title: "pods in the cluster", Format: thousands}
	return []svg.Chart{
		{Title: "Pods: CPU", X: x, Y: svg.Axis{Title: "µs per review, over TLS"}, Lines: g.costLines(cpuOf, "pods")},
		{Title: "Pods: start", X: x, Y: svg.Axis{Title: "CPU seconds until ready"}, Lines: []svg.Line{
			g.line("from a watch", "pods", startOf), g.line("from a list", "pods in a list", startOf),
		}},
		{Title: "Pods: memory", X: x, Y: svg.Axis{Title: "MB"}, Lines: []svg.Line{
			g.line("state", "pods", heapOf), g.line("peak at the start", "pods", peakOf),
		}},
	}
}

func cpuOf(c Cost) float64     { return c.CPU }
func objectsOf(c Cost) float64 { return c.Objects }
func startOf(p Point) float64  { return p.StartCPU }
func heapOf(p Point) float64   { return mega(p.Heap) }
func peakOf(p Point) float64   { return mega(p.Peak) }

func thousands(v float64) string {
	if v == 0 {
		return "0"
	}
	return svg.Number(v/1000) + "k"
}

// where describes the run in a line that fits below a chart.
func (h growthHead) where() string {
	return fmt.Sprintf("usher %s, %s, %s", h.Usher, h.Go, h.CPU)
}

func (g *Growth) line(name, subject string, value func(Point) float64) svg.Line {
	line := svg.Line{Name: name}
	for _, p := range g.of(subject) {
		line.Points = append(line.Points, svg.Point{X: float64(p.Count), Y: value(p)})
	}
	return line
}

// costLines returns the lines of the reviews of some subjects.
func (g *Growth) costLines(value func(Cost) float64, subjects ...string) (lines []svg.Line) {
	for _, subject := range subjects {
		for _, name := range g.lineNames(subject) {
			line := svg.Line{Name: name}
			for _, p := range g.of(subject) {
				if c := p.cost(name); c != nil {
					line.Points = append(line.Points, svg.Point{X: float64(p.Count), Y: value(*c)})
				}
			}
			lines = append(lines, line)
		}
	}
	return lines
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

// markdown returns the tables between the markers.
func (g *Growth) markdown() string {
	var b strings.Builder
	h := g.Head
	fmt.Fprintf(&b, "usher %s (tree %s), %s, %s; %s, %d cores; %s; medians of %d rounds.\n\n",
		h.Usher, h.Commit, h.Go, h.Date, h.CPU, h.Cores, h.Pinned, h.Rounds)
	b.WriteString("| what grows | review | from – to | CPU µs | objects allocated |\n|---|---|---|---:|---:|\n")
	for _, subject := range g.names() {
		points := g.of(subject)
		first, last := points[0], points[len(points)-1]
		for _, name := range g.lineNames(subject) {
			a, z := first.cost(name), last.cost(name)
			fmt.Fprintf(&b, "| %s | %s | %s – %s | %s – %s | %s – %s |\n", subject, name, number(float64(first.Count)), number(float64(last.Count)),
				number(a.CPU), number(z.CPU), number(a.Objects), number(z.Objects))
		}
	}
	b.WriteString("\n| state of | MB for each 1,000 | largest | MB of state | peak MB until ready | CPU s until ready |\n" +
		"|---|---:|---:|---:|---:|---:|\n")
	for _, subject := range g.names() {
		points := g.of(subject)
		last := points[len(points)-1]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", subject, number(g.perThousand(subject)), number(float64(last.Count)),
			number(mega(last.Heap)), number(mega(last.Peak)), number(last.StartCPU))
	}
	return b.String()
}

// names returns the subjects in the order of the run.
func (g *Growth) names() (names []string) {
	for _, p := range g.Points {
		if !slices.Contains(names, p.Subject) {
			names = append(names, p.Subject)
		}
	}
	return names
}

// perThousand returns the MB of state that 1,000 more of a subject take.
func (g *Growth) perThousand(subject string) float64 {
	points := g.of(subject)
	first, last := points[0], points[len(points)-1]
	return ratio(mega(last.Heap-first.Heap)*1000, float64(last.Count-first.Count))
}
