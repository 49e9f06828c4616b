package main

import (
	"fmt"
	"slices"
	"strings"

	svg "usher.dev/usher/test/plot"
)

// charts returns the plots: the cost of reviews and their allocations beside each other, then starts and memory.
func (g *Growth) charts() []svg.Chart {
	var all []svg.Chart
	for _, c := range []struct {
		title, axis string
		subjects    []string
	}{
		{"Profiles", "ClusterColocationProfiles", []string{"profiles", "broad profiles"}},
		{"Overrides", "overrides of the policy", []string{"overrides", "broad overrides"}},
		{"Quotas", "ElasticQuotas", []string{"flat quotas", "quota tree"}},
	} {
		cpu := func(c Cost) float64 { return c.CPU }
		objects := func(c Cost) float64 { return c.Objects }
		x := svg.Axis{Title: c.axis, Log: true}
		all = append(all, svg.Chart{Title: c.title + ": CPU", X: x, Y: svg.Axis{Title: "µs per review, over TLS", Log: true}, Lines: g.costLines(cpu, c.subjects...)},
			svg.Chart{Title: c.title + ": allocations", X: x, Y: svg.Axis{Title: "objects per review"}, Lines: g.costLines(objects, c.subjects...)})
	}
	pods := svg.Axis{Title: "pods in the cluster", Format: thousands}
	all = append(all,
		svg.Chart{Title: "Pods: CPU", X: pods, Y: svg.Axis{Title: "µs per review, over TLS"}, Lines: g.costLines(func(c Cost) float64 { return c.CPU }, "pods")},
		svg.Chart{Title: "Pods: start", X: pods, Y: svg.Axis{Title: "CPU seconds until ready"}, Lines: []svg.Line{
			g.line("from a watch", "pods", func(p Point) float64 { return p.StartCPU }),
			g.line("from a list", "pods in a list", func(p Point) float64 { return p.StartCPU }),
		}},
		svg.Chart{Title: "Pods: memory", X: pods, Y: svg.Axis{Title: "MB"}, Lines: []svg.Line{
			g.line("state", "pods", func(p Point) float64 { return mega(p.Heap) }),
			g.line("peak at the start", "pods", func(p Point) float64 { return mega(p.Peak) }),
		}},
		svg.Chart{Title: "Profiles, overrides, quotas: memory", X: svg.Axis{Title: "objects of the kind", Log: true}, Y: svg.Axis{Title: "MB of state"}, Lines: []svg.Line{
			g.line("profiles", "profiles", func(p Point) float64 { return mega(p.Heap) }),
			g.line("overrides", "overrides", func(p Point) float64 { return mega(p.Heap) }),
			g.line("quotas", "quota tree", func(p Point) float64 { return mega(p.Heap) }),
		}})
	all[len(all)-2].Note = g.Head.where()
	return all
}

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
	fmt.Fprintf(&b, "usher %s (tree %s), %s, %s; %s, %d cores; %s; medians of %d rounds.\n\n", h.Usher, h.Commit, h.Go, h.Date, h.CPU, h.Cores, h.Pinned, h.Rounds)
	b.WriteString("| what grows | review | from – to | CPU µs | objects allocated |\n|---|---|---|---:|---:|\n")
	for _, subject := range g.names() {
		points := g.of(subject)
		first, last := points[0], points[len(points)-1]
		for _, name := range g.lineNames(subject) {
			a, z := first.cost(name), last.cost(name)
			fmt.Fprintf(&b, "| %s | %s | %s – %s | %s – %s | %s – %s |\n", subject, name, svg.Number(float64(first.Count)), svg.Number(float64(last.Count)),
				number(a.CPU), number(z.CPU), number(a.Objects), number(z.Objects))
		}
	}
	b.WriteString("\n| state of | MB for each 1,000 | of the largest: MB, peak until ready, ready after, CPU until then |\n|---|---:|---|\n")
	for _, subject := range g.names() {
		points := g.of(subject)
		last := points[len(points)-1]
		fmt.Fprintf(&b, "| %s | %s | %s: %s MB, %s MB, %s s, %s s |\n", subject, number(g.perThousand(subject)), svg.Number(float64(last.Count)),
			number(mega(last.Heap)), number(mega(last.Peak)), number(last.Ready), number(last.StartCPU))
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
