// Package plot draws line charts and bars as self-contained SVG, in light and dark by the reader's colour scheme.
//
//	os.WriteFile("cost.svg", []byte(plot.Page(plot.Chart{Title: "Cost", Lines: lines})), 0o644)
package plot

import (
	"fmt"
	"strings"
)

// Chart is a line chart. The order of the lines decides their colours, markers and dashes.
type Chart struct {
	Title, Note string // Note is a small line of text below the chart: what was measured, and where
	X, Y        Axis
	Lines       []Line
}

// Axis is one of the two axes. A linear axis starts at zero.
type Axis struct {
	Title  string
	Log    bool                 // values that are not positive are left out of the chart
	Format func(float64) string `json:"-"` // text of a tick; nil writes 1,000 and 0.5
}

// Line is a series of points in the order of X. Its name is written at its end.
type Line struct {
	Name   string
	Points []Point
}

// Point is one value. Values that are not finite leave a gap in the line.
type Point struct {
	X, Y float64
}

// Sizes in pixels of a chart on a page.
const cellWidth, cellHeight = 470, 310

// Page returns one file with the charts in two columns, read line by line.
func Page(charts ...Chart) string {
	var titles []string
	for _, c := range charts {
		titles = append(titles, c.Title)
	}
	var b strings.Builder
	head(&b, min(2, len(charts))*cellWidth, (len(charts)+1)/2*cellHeight, strings.Join(titles, "; "))
	for i, c := range charts {
		c.draw(&b, i%2*cellWidth, i/2*cellHeight, cellWidth, cellHeight)
	}
	return b.String() + "</svg>\n"
}

// head starts a file: a title for screen readers, and the style, which is all that depends on the colour scheme.
func head(b *strings.Builder, width, height int, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%[3]s</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.head { font-size: 15px; font-weight: 600 }
.name { font-size: 11px; font-weight: 600 }
line { stroke: #d1d9e0 }
.curve, .lead { fill: none; stroke-linejoin: round }
.curve { stroke-width: 2 }
%[4]s@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .small { fill: #9198a1 }
  line { stroke: #3d444d }
%[5]s}
</style>
`, width, height, escaped(title), colours("", light), colours("  ", dark))
}

// Colours of the lines, which differ in lightness as well as in hue.
var (
	light = []string{"#0969da", "#bf8700", "#8250df", "#116329", "#cf222e", "#59636e"}
	dark  = []string{"#4493f8", "#d29922", "#d2a8ff", "#7ee787", "#ff7b72", "#9198a1"}
)

func colours(indent string, palette []string) string {
	var b strings.Builder
	for i, colour := range palette {
		fmt.Fprintf(&b, "%s.curve.l%d, .lead.l%[2]d { stroke: %[3]s } .mark.l%[2]d, .name.l%[2]d { fill: %[3]s }\n", indent, i, colour)
	}
	return b.String()
}

// dashes of the lines, beside their colours.
var dashes = []string{"", "7 3", "2 3", "9 3 2 3", "4 2", "12 4"}

// mark returns the marker of a point: a shape for each line.
func mark(line int, x, y float64) string {
	class := fmt.Sprintf("mark l%d", line)
	switch line {
	case 0:
		return fmt.Sprintf("<circle class=%q cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", class, x, y)
	case 1:
		return fmt.Sprintf("<rect class=%q x=\"%.1f\" y=\"%.1f\" width=\"6.4\" height=\"6.4\"/>\n", class, x-3.2, y-3.2)
	}
	corners := [][]float64{2: {0, -4.4, 4.2, 3.4, -4.2, 3.4}, 3: {0, -4.6, 4.6, 0, 0, 4.6, -4.6, 0}, 4: {0, 4.4, 4.2, -3.4, -4.2, -3.4},
		5: {-4, -1.6, 4, -1.6, 4, 1.6, -4, 1.6}}[line]
	var points strings.Builder
	for i := 0; i < len(corners); i += 2 {
		fmt.Fprintf(&points, "%.1f,%.1f ", x+corners[i], y+corners[i+1])
	}
	return fmt.Sprintf("<polygon class=%q points=%q/>\n", class, strings.TrimSpace(points.String()))
}
