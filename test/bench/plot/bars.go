package plot

import (
	"fmt"
	"strings"
)

// Bars is a chart of groups of horizontal bars on a logarithmic scale.
type Bars struct {
	Title, Note string
	Keys        []Key // of the bars of a group, in their order
	Groups      []Group
	Format      func(float64) string // text of a tick; nil writes 1,000 and 0.5
}

// Key is the meaning of a colour: the one of the line with this number.
type Key struct {
	Name string
	Line int
}

// Group has bars with one name, and a text at the end of each.
type Group struct {
	Name   string
	Values []float64
	Labels []string
}

// Sizes of bars in pixels: the first one's place, and the space to the right for labels.
const (
	barsWidth, barsLeft, barsRight = 800, 200, 118
	barsTop, barHeight, barsGap    = 72, 16, 16
)

// SVG returns the bars as a file.
func (c Bars) SVG() string {
	var all []float64
	for _, g := range c.Groups {
		all = append(all, g.Values...)
	}
	height := barsTop + len(all)*barHeight + len(c.Groups)*barsGap + 40
	s := scaleFor(Axis{Log: true, Format: c.Format}, all, barsLeft, barsWidth-barsRight)
	var b strings.Builder
	head(&b, barsWidth, height, c.Title)
	text(&b, "head", edge, 24, "start", c.Title)
	c.drawKeys(&b)
	for _, tick := range s.ticks {
		at := s.at(tick)
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", at, barsTop-8, at, height-40)
		text(&b, "small", at, float64(height-26), "middle", s.formatTick(tick))
	}
	y := barsTop
	for _, g := range c.Groups {
		c.drawGroup(&b, s, y, g)
		y += len(g.Values)*barHeight + barsGap
	}
	text(&b, "small", edge, float64(height-8), "start", c.Note)
	return b.String() + "</svg>\n"
}

func (c Bars) drawKeys(b *strings.Builder) {
	x := float64(edge)
	for _, key := range c.Keys {
		rect(b, key.Line, x, 36, 12, 12)
		text(b, "small", x+18, 46, "start", key.Name)
		x += 18 + textWidth(key.Name, 11) + 24
	}
}

func (c Bars) drawGroup(b *strings.Builder, s scale, y int, g Group) {
	text(b, "", barsLeft-10, float64(y+barHeight*len(g.Values)/2+5), "end", g.Name)
	for i, value := range g.Values {
		top, end := float64(y+i*barHeight), s.from
		if s.shows(value) {
			end = s.at(value)
		}
		rect(b, c.Keys[i].Line, s.from, top, end-s.from, barHeight-2)
		text(b, "small", end+5, top+barHeight-5, "start", g.Labels[i])
	}
}

func rect(b *strings.Builder, line int, x, y, width, height float64) {
	fmt.Fprintf(b, "<rect class=\"mark l%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", line, x, y, width, height)
}
