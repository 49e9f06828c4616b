package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// Sizes of the plot in pixels.
const (
	plotWidth, plotLeft, plotRight = 800, 200, 118
	plotTop, barHeight, groupGap   = 72, 16, 16
)

// axis is a logarithmic scale from one power of ten to another, in µs.
type axis struct {
	low, high float64
}

func (a axis) x(value float64) float64 {
	share := math.Log10(max(value, a.low)/a.low) / math.Log10(a.high/a.low)
	return plotLeft + share*(plotWidth-plotLeft-plotRight)
}

// axisFor returns an axis that includes all values.
func axisFor(cells []*Cell) axis {
	least, most := math.Inf(1), 0.0
	for _, c := range cells {
		least, most = min(least, c.CPU), max(most, c.CPU)
	}
	if most == 0 {
		return axis{1, 10}
	}
	low := math.Pow(10, math.Floor(math.Log10(max(least, 0.001))))
	return axis{low, max(math.Pow(10, math.Ceil(math.Log10(most))), low*10)}
}

// plot draws the CPU per review, with a group of bars for each review, as a self-contained SVG that supports light and
// dark mode.
func plot(r *Report) string {
	var all []*Cell
	var groups [][]*Cell
	for _, review := range r.reviews() {
		if g, ok := r.group(review, cpuConnections); ok {
			bars := []*Cell{g.constant, g.usher}
			if g.plain != nil {
				bars = append(bars, g.plain)
			}
			groups, all = append(groups, bars), append(all, bars...)
		}
	}
	a := axisFor(all)
	height := plotTop + len(all)*barHeight + len(groups)*groupGap + 40
	var b strings.Builder
	plotHead(&b, height)
	plotGrid(&b, a, height)
	y := plotTop
	for _, bars := range groups {
		plotGroup(&b, a, y, bars)
		y += len(bars)*barHeight + groupGap
	}
	fmt.Fprintf(&b, "<text class=\"small\" x=\"16\" y=\"%d\">%s</text>\n</svg>\n", height-8,
		escaped(fmt.Sprintf("%s, %s, %s; × constant at the bars. Logarithmic scale.", r.Commit, r.Go, r.CPU)))
	return b.String()
}

func plotHead(b *strings.Builder, height int) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>CPU per review: constant server, usher, plain pipeline</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.head { font-size: 15px; font-weight: 600 }
line { stroke: #d1d9e0 }
.constant { fill: #9198a1 } .usher { fill: #0969da } .plain { fill: #bf8700 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .small { fill: #9198a1 } line { stroke: #3d444d } .usher { fill: #4493f8 } .plain { fill: #d29922 }
}
</style>
<text class="head" x="16" y="24">CPU per review over TLS, %d connections</text>
`, plotWidth, height, cpuConnections)
	for i, key := range []struct{ class, text string }{
		{constant, "constant: reads the body"}, {usher, "usher"}, {plain, "plain: decode, copy, encode, diff"},
	} {
		x := []int{16, 216, 300}[i]
		fmt.Fprintf(b, "<rect class=%q x=\"%d\" y=\"36\" width=\"12\" height=\"12\"/><text x=\"%d\" y=\"47\">%s</text>\n", key.class, x, x+18, key.text)
	}
}

// plotGrid draws a line for each power of ten.
func plotGrid(b *strings.Builder, a axis, height int) {
	for value := a.low; value <= a.high*1.01; value *= 10 {
		x := a.x(value)
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text class=\"small\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
			x, plotTop-8, x, height-40, x, height-26, duration(value))
	}
}

// plotGroup draws the bars of one review; the first is the constant server's.
func plotGroup(b *strings.Builder, a axis, y int, cells []*Cell) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", plotLeft-10, y+barHeight*len(cells)/2+5, escaped(title(cells[0].Review)))
	for i, c := range cells {
		top, end := y+i*barHeight, a.x(c.CPU)
		label := duration(c.CPU)
		if i > 0 {
			label += fmt.Sprintf(" · %s ×", number(rounded(ratio(c.CPU, cells[0].CPU), 2)))
		}
		fmt.Fprintf(b, "<rect class=%q x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/><text class=\"small\" x=\"%.1f\" y=\"%d\">%s</text>\n",
			c.Server, plotLeft, top, end-plotLeft, barHeight-2, end+5, top+barHeight-5, escaped(label))
	}
}

// title returns the display name of a review, such as "20 KB pod changed".
func title(review string) string {
	return strings.ReplaceAll(strings.Replace(review, "KB", " KB", 1), "-", " ")
}

// duration formats µs in a suitable unit.
func duration(us float64) string {
	if us >= 1000 {
		return number(us/1000) + " ms"
	}
	return number(us) + " µs"
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder never fails
	return b.String()
}
