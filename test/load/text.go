package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table formats every cell with its ratios, and the results of the aims, for a terminal.
func table(r *Report) string {
	var b strings.Builder // never returns an error
	fmt.Fprintf(&b, "%s\n\n", r.headline())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "review\tconns\tserver\treviews/s\tp50 µs\tp99 µs\tCPU µs\t× constant\tof plain\tcore\tobjects\tKB\tpeak MB\t")
	for _, c := range r.Cells {
		g, _ := r.group(c.Review, c.Connections)
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f %%\t%s\t%s\t%.0f\t\n", c.Review, c.Connections, c.Server,
			number(c.PerSecond), number(c.P50), number(c.P99), number(c.CPU), times(&c, g.constant), part(&c, g.plain),
			c.busy()*100, number(c.Objects), number(c.Allocated/1024), mega(c.PeakMemory))
	}
	_ = w.Flush()
	b.WriteString("\nAims:\n")
	for _, a := range aims(r) {
		fmt.Fprintf(&b, "  %v\n", a)
	}
	return b.String()
}

// busy returns the share of its core that the server used. Well below 1, the server does not limit its rate and times.
func (c *Cell) busy() float64 { return c.PerSecond * c.CPU / 1e6 }

// headline describes what was measured, on which machine and when.
func (r *Report) headline() string {
	quick := ""
	if r.Quick {
		quick = " A quick run: for a look only."
	}
	return fmt.Sprintf("usher %s (tree %s), %s, %s; %s, %d cores; %s; medians of %d rounds.%s",
		r.Usher, r.Commit, r.Go, r.Date, r.CPU, r.Cores, r.Pinned, r.Rounds, quick)
}

// summary returns the table of docs/performance.md.
func summary(r *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nCPU µs per review over TLS, %d connections:\n\n", r.headline(), cpuConnections)
	b.WriteString("| review | constant | usher | × constant (aim) | with 64 connections | plain | usher of plain | allocations |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, review := range r.reviews() {
		if g, ok := r.group(review, cpuConnections); ok {
			fmt.Fprintf(&b, "| %s | %s | **%s** | %s | %s | %s | %s | %s |\n", title(review), number(g.constant.CPU), number(g.usher.CPU),
				r.withAim(review, cpuConnections), r.withAim(review, tailConnections), cpu(g.plain), part(g.usher, g.plain), number(g.usher.Objects))
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
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %.0f |\n", title(c.Review), c.Connections, c.Server, number(c.PerSecond),
			number(c.P50/1000), number(c.P99/1000), number(c.CPU), number(c.Objects), number(c.Allocated/1024), mega(c.PeakMemory))
	}
	b.WriteString("\nThe aims:\n\n")
	for _, a := range aims(r) {
		fmt.Fprintf(&b, "- %v\n", a)
	}
	return b.String()
}

// withAim returns the CPU of a review as a multiple of the constant server's, and what it should be.
func (r *Report) withAim(review string, connections int) string {
	g, ok := r.group(review, connections)
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%s (%g)", times(g.usher, g.constant), aimsOf(review)[connections])
}

// cpu returns the CPU of a cell that may be missing.
func cpu(c *Cell) string {
	if c == nil {
		return "–"
	}
	return number(c.CPU)
}

// times returns a cell's CPU as a multiple of the constant server's.
func times(c, of *Cell) string {
	if of == nil || c.Server == constant {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio(c.CPU, of.CPU))
}

// part returns a cell's CPU as a fraction of the plain pipeline's.
func part(c, of *Cell) string {
	if of == nil || c.Server == plain || c.CPU == 0 {
		return ""
	}
	return fmt.Sprintf("1/%.1f", of.CPU/c.CPU)
}

// number formats a value with three significant digits and commas between thousands: 0.0271, 27.1, 2,050.
func number(value float64) string {
	if value = rounded(value, 3); math.Abs(value) < 1000 {
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	text := strconv.FormatFloat(value, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func mega(bytes int64) float64 { return float64(bytes) / (1 << 20) }
