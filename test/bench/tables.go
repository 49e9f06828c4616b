package main

import (
	"fmt"
	"strings"

	"usher.dev/usher/bench/report"
)

// place is where docs has the run.
var place = report.Place{Data: "performance.json", Page: "performance.md",
	Begins: "<!-- load: begin -->", Ends: "<!-- load: end -->"}

// summary returns the table of docs/design/performance.md.
func summary(r *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nCPU µs per review over TLS, %d connections:\n\n", r.Headline(), cpuConnections)
	b.WriteString("| review | constant | usher | × constant (aim) | plain | usher of plain |\n|---|---:|---:|---:|---:|---:|\n")
	for _, review := range r.reviews() {
		if g, ok := r.group(review, cpuConnections); ok {
			fmt.Fprintf(&b, "| %s | %s | **%s** | %s | %s | %s |\n", title(review), report.Number(g.constant.CPU), report.Number(g.usher.CPU),
				report.Times(g.usher.CPU, g.constant.CPU)+aimText(review), cpu(g.plain), part(g.usher, g.plain))
		}
	}
	return b.String()
}

// markdown returns the table and all measurements.
func markdown(r *Report) string {
	var b strings.Builder
	b.WriteString(summary(r))
	b.WriteString("\nAll of it; CPU in µs per review, objects and KB allocated per review, peak resident memory:\n\n")
	b.WriteString("| review | connections | server | reviews/s | p50 ms | p99 ms | CPU µs | objects | KB | peak MB |\n|---|---:|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range r.Cells {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %.0f |\n", title(c.Review), c.Connections, c.Server, report.Number(c.PerSecond),
			report.Number(c.P50/1000), report.Number(c.P99/1000), report.Number(c.CPU), report.Number(c.Objects), report.Number(c.Allocated/1024), mega(c.PeakMemory))
	}
	b.WriteString("\nThe aims:\n\n")
	for _, a := range aims(r) {
		fmt.Fprintf(&b, "- %v\n", a)
	}
	return b.String()
}

// aimText returns the aim of a review in parentheses, if it has one.
func aimText(review string) string {
	if wanted := aimOf(review); wanted > 0 {
		return fmt.Sprintf(" (%g)", wanted)
	}
	return ""
}

// cpu returns the CPU of a cell that may be missing.
func cpu(c *Cell) string {
	if c == nil {
		return "–"
	}
	return report.Number(c.CPU)
}

// part returns a cell's CPU as a fraction of the plain pipeline's.
func part(c, of *Cell) string {
	if of == nil {
		return ""
	}
	return fmt.Sprintf("1/%.1f", of.CPU/c.CPU)
}

func mega(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// title returns the display name of a review, such as "20 KB pod changed".
func title(review string) string {
	return strings.ReplaceAll(strings.Replace(review, "KB", " KB", 1), "-", " ")
}
