package plot

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Sizes in pixels: rows of text above and below the lines, and the distance between two names.
const (
	above, below, edge = 66, 58, 16
	nameHeight         = 14.0
)

// draw writes the chart into the given part of the file.
func (c Chart) draw(b *strings.Builder, left, top, width, height int) {
	var xs, ys []float64
	for _, line := range c.Lines {
		for _, p := range line.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	y := scaleFor(c.Y, ys, float64(top+height-below), float64(top+above))
	start, end := float64(left+edge)+widest(y)+8, float64(left+width-edge)-c.nameColumn(width)
	x := scaleFor(c.X, xs, start, end)
	text(b, "head", float64(left+edge), float64(top+24), "start", c.Title)
	text(b, "small", float64(left+edge), float64(top+46), "start", c.Y.Title)
	drawY(b, y, start, end)
	drawX(b, x, y.from)
	text(b, "small", (start+end)/2, y.from+32, "middle", c.X.Title)
	text(b, "small", float64(left+edge), float64(top+height-8), "start", c.Note)
	c.drawLines(b, x, y)
}

// nameColumn returns the width of the names to the right of the lines, with the gap before them.
func (c Chart) nameColumn(width int) float64 {
	column := 0.0
	for _, line := range c.Lines {
		column = max(column, textWidth(line.Name, 11))
	}
	return min(column+14, float64(width)/2)
}

func widest(s scale) float64 {
	width := 0.0
	for _, tick := range s.ticks {
		width = max(width, textWidth(s.formatTick(tick), 11))
	}
	return width
}

func drawY(b *strings.Builder, y scale, start, end float64) {
	for _, tick := range y.ticks {
		at := y.at(tick)
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", start, at, end, at)
		text(b, "small", start-6, at+4, "end", y.formatTick(tick))
	}
}

// drawX writes the ticks of the horizontal axis, or every second or fourth if they would overlap.
func drawX(b *strings.Builder, x scale, bottom float64) {
	every := 1
	for closest(x, every) < widest(x)+8 {
		every *= 2
	}
	for i, tick := range x.ticks {
		at := x.at(tick)
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", at, bottom, at, bottom+4)
		if i%every == 0 {
			text(b, "small", at, bottom+17, "middle", x.formatTick(tick))
		}
	}
}

// closest returns the smallest distance in pixels between every second, third ... tick.
func closest(s scale, every int) float64 {
	distance := math.Inf(1)
	for i := every; i < len(s.ticks); i += every {
		distance = min(distance, s.at(s.ticks[i])-s.at(s.ticks[i-every]))
	}
	return distance
}

func (c Chart) drawLines(b *strings.Builder, x, y scale) {
	var names []name
	for i, line := range c.Lines {
		i %= len(light)
		last, any := drawLine(b, i, line, x, y)
		if any {
			names = append(names, name{text: line.Name, line: i, x: last.X, y: last.Y, at: last.Y})
		}
	}
	place(names, y.to, y.from)
	for _, n := range names {
		if n.at != n.y || n.x < x.to-1 {
			fmt.Fprintf(b, "<polyline class=\"lead l%d\" stroke-dasharray=\"1 3\" points=\"%.1f,%.1f %.1f,%.1f\"/>\n", n.line, n.x, n.y, x.to+9, n.at)
		}
		text(b, fmt.Sprintf("name l%d", n.line), x.to+11, n.at+4, "start", n.text)
	}
}

// drawLine draws a line with its markers, and returns the pixel of its last point.
func drawLine(b *strings.Builder, i int, line Line, x, y scale) (last Point, any bool) {
	var runs [][]Point // pixels; a point that cannot be shown ends a run
	gap := true
	for _, p := range line.Points {
		if !x.shows(p.X) || !y.shows(p.Y) {
			gap = true
			continue
		}
		if gap {
			runs = append(runs, nil)
		}
		last, any, gap = Point{x.at(p.X), y.at(p.Y)}, true, false
		runs[len(runs)-1] = append(runs[len(runs)-1], last)
	}
	for _, run := range runs {
		var points []string
		for _, p := range run {
			points = append(points, fmt.Sprintf("%.1f,%.1f", p.X, p.Y))
			b.WriteString(mark(i, p.X, p.Y))
		}
		fmt.Fprintf(b, "<polyline class=\"curve l%d\" stroke-dasharray=%q points=%q/>\n", i, dashes[i], strings.Join(points, " "))
	}
	return last, any
}

// name is the text at the end of a line.
type name struct {
	text string
	line int
	x, y float64 // the pixel where the line ends
	at   float64 // where the text is, vertically
}

// place moves names apart that would overlap, and keeps them between top and bottom.
func place(names []name, top, bottom float64) {
	slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(a.y, b.y) })
	for i := range names {
		if i > 0 {
			names[i].at = max(names[i].at, names[i-1].at+nameHeight)
		}
	}
	limit := bottom
	for i := len(names) - 1; i >= 0; i-- {
		names[i].at = min(names[i].at, limit)
		limit = names[i].at - nameHeight
	}
	if len(names) > 0 && names[0].at < top { // more names than there is room for: from the top, downwards
		for i := range names {
			names[i].at = top + float64(i)*nameHeight
		}
	}
}

// textWidth returns an upper estimate of the width of a text of the given font size.
func textWidth(s string, size float64) float64 {
	return 0.61 * size * float64(len([]rune(s)))
}

func text(b *strings.Builder, class string, x, y float64, anchor, s string) {
	if s != "" {
		fmt.Fprintf(b, "<text class=%q x=\"%.1f\" y=\"%.1f\" text-anchor=%q>%s</text>\n", class, x, y, anchor, escaped(s))
	}
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}
