package plot

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func line(name string, values ...float64) Line {
	l := Line{Name: name}
	for i := 0; i < len(values); i += 2 {
		l.Points = append(l.Points, Point{values[i], values[i+1]})
	}
	return l
}

// charts are those that are easily drawn wrong.
func charts() map[string]Chart {
	log, linear := Axis{Title: "of & them", Log: true}, Axis{Title: "µs < ms"}
	nan := math.NaN()
	return map[string]Chart{
		"empty":        {},
		"one point":    {Title: "a <title>", X: log, Y: log, Lines: []Line{line("a & b", 100, 100)}},
		"three curves": {Title: "t", Note: "go1, somewhere", X: log, Y: log, Lines: []Line{line("one", 10, 1, 10_000, 33_000), line("two", 10, 1, 10_000, 1), line("three", 10, 3, 10_000, 4)}},
		"flat":         {X: log, Y: linear, Lines: []Line{line("flat", 10, 88, 1000, 88)}},
		"zeros":        {X: linear, Y: linear, Lines: []Line{line("nothing", 0, 0, 1, 0)}},
		"zero on log":  {X: log, Y: log, Lines: []Line{line("from zero", 0, 5, 10, 0, 100, 7, 1000, -3)}},
		"not numbers":  {X: linear, Y: log, Lines: []Line{line("gap", 0, 1, 1, nan, 2, math.Inf(1), 3, 4), line("none", nan, nan)}},
		"below zero":   {X: linear, Y: linear, Lines: []Line{line("less", 0, -5, 10, 12)}},
		"tiny":         {X: linear, Y: linear, Lines: []Line{line("tiny", 0, 0.00002, 1, 0.00007)}},
		"huge":         {X: linear, Y: linear, Lines: []Line{line("huge", 0, 0, 200_000, 123_456_789)}},
		"many names": {X: linear, Y: linear, Lines: []Line{line("a", 0, 0, 1, 9), line("b", 0, 0, 1, 9.1), line("c", 0, 0, 1, 9.2),
			line("d", 0, 0, 0.5, 0), line("e", 0, 0, 1, 0), line("f", 0, 0, 1, 0)}},
		"a seventh line": {X: linear, Y: linear, Lines: slices.Repeat([]Line{line("again", 0, 1, 2, 3)}, 7)},
	}
}

func TestSVG(t *testing.T) {
	for name, c := range charts() {
		for _, file := range []string{Page(c), Page(c, c, c)} {
			t.Run(name, func(t *testing.T) { wantSound(t, file) })
		}
	}
}

func TestBars(t *testing.T) {
	keys := []Key{{"grey: the yardstick", 5}, {"blue & fast", 0}, {"amber", 1}}
	for name, c := range map[string]Bars{
		"empty":  {},
		"groups": {Title: "a <title>", Note: "go1, somewhere", Keys: keys, Groups: []Group{{"one", []float64{12, 3400, 56_789}, []string{"12", "3,400", "a lot"}}, {"two & three", []float64{0.5, 0}, []string{"½", "0"}}}},
		"one":    {Title: "t", Keys: keys, Groups: []Group{{"one", []float64{7}, []string{"7"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			file := c.SVG()
			wantSound(t, file)
			bars := len(c.Keys)
			for _, g := range c.Groups {
				bars += len(g.Values)
			}
			if got := strings.Count(file, "<rect"); got != bars {
				t.Errorf("%d rectangles, want %d, with those of the keys", got, bars)
			}
		})
	}
}

// wantSound checks that the file is XML, that all of it is in the frame and that no text covers another.
func wantSound(t *testing.T, file string) {
	t.Helper()
	if strings.Contains(file, "NaN") || strings.Contains(file, "Inf") {
		t.Errorf("not a number in\n%s", file)
	}
	if !strings.Contains(file, `role="img"`) || !strings.Contains(file, "<title>") || !strings.Contains(file, "prefers-color-scheme: dark") {
		t.Errorf("no role, title or dark style in\n%.600s", file)
	}
	elements := parse(t, file)
	width, height := elements[0].number(t, "width"), elements[0].number(t, "height")
	var texts []box
	for _, e := range elements[1:] {
		for _, b := range e.boxes(t) {
			if b.left < 0 || b.top < 0 || b.right > width || b.bottom > height {
				t.Errorf("%s %q at %v leaves the frame of %v × %v", e.name, e.text, b, width, height)
			}
			if e.name == "text" {
				for _, other := range texts {
					if b.covers(other) {
						t.Errorf("%q at %v covers another text at %v", e.text, b, other)
					}
				}
				texts = append(texts, b)
			}
		}
	}
}

type element struct {
	name, text string
	attributes map[string]string
}

func (e element) number(t *testing.T, attribute string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(e.attributes[attribute], 64)
	if err != nil {
		t.Fatalf("%s of %s: %v", attribute, e.name, err)
	}
	return v
}

type box struct{ left, top, right, bottom float64 }

func (b box) covers(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// boxes returns what the element covers.
func (e element) boxes(t *testing.T) []box {
	var all []box
	switch e.name {
	case "text":
		x, y, size := e.number(t, "x"), e.number(t, "y"), 11.0
		if e.attributes["class"] == "head" {
			size = 15
		}
		width := textWidth(e.text, size)
		left := map[string]float64{"start": x, "middle": x - width/2, "end": x - width}[e.attributes["text-anchor"]]
		all = append(all, box{left, y - 0.8*size, left + width, y + 0.2*size})
	case "polyline", "polygon":
		for pair := range strings.FieldsSeq(e.attributes["points"]) {
			var x, y float64
			if _, err := fmt.Sscanf(pair, "%f,%f", &x, &y); err != nil {
				t.Fatal(err)
			}
			all = append(all, box{x, y, x, y})
		}
	case "circle":
		x, y, r := e.number(t, "cx"), e.number(t, "cy"), e.number(t, "r")
		all = append(all, box{x - r, y - r, x + r, y + r})
	case "rect":
		x, y := e.number(t, "x"), e.number(t, "y")
		width, height := e.number(t, "width"), e.number(t, "height")
		if width < 0 || height < 0 {
			t.Errorf("a rectangle of %v × %v", width, height)
		}
		all = append(all, box{x, y, x + width, y + height})
	case "line":
		all = append(all, box{e.number(t, "x1"), e.number(t, "y1"), e.number(t, "x2"), e.number(t, "y2")})
	}
	return all
}

func parse(t *testing.T, file string) []element {
	t.Helper()
	var all []element
	for d := xml.NewDecoder(strings.NewReader(file)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, file)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			all = append(all, e)
		case xml.CharData:
			if len(all) > 0 {
				all[len(all)-1].text += strings.TrimSpace(string(token))
			}
		}
	}
}

// TestGaps: a point that cannot be shown ends the curve before it, and is not drawn.
func TestGaps(t *testing.T) {
	c := Chart{X: Axis{Log: true}, Lines: []Line{line("a", 0, 1, 1, 1, 2, 1, 3, math.NaN(), 4, 1, 5, 1)}}
	file := Page(c)
	if curves, marks := strings.Count(file, "<polyline class=\"curve"), strings.Count(file, "<circle"); curves != 2 || marks != 4 {
		t.Errorf("%d curves and %d points, want 2 and 4\n%s", curves, marks, file)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		log    bool
		values []float64
		want   string
	}{
		{false, []float64{0, 200_000}, "0 50,000 100,000 150,000 200,000"},
		{false, []float64{88}, "0 20 40 60 80 100"},
		{false, []float64{0.3}, "0 0.05 0.1 0.15 0.2 0.25 0.3"},
		{false, []float64{-5, 12}, "-5 0 5 10 15"},
		{false, nil, "0 1"},
		{true, []float64{10, 10_000}, "10 100 1,000 10,000"},
		{true, []float64{1, 500}, "1 10 100 500"},
		{true, []float64{12, 45}, "10 20 50 100"},
		{true, []float64{0.5}, "0.1 0.2 0.5 1"},
		{true, nil, "1 10"},
	} {
		var got []string
		s := scaleFor(Axis{Log: c.log}, c.values, 0, 100)
		for _, tick := range s.ticks {
			got = append(got, Number(tick))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("log %v, %v: %v, want %s", c.log, c.values, got, c.want)
		}
		if from, to := s.at(s.ticks[0]), s.at(s.ticks[len(s.ticks)-1]); math.Abs(from) > 1e-6 || to > 100.0001 {
			t.Errorf("log %v, %v: the ticks reach from %v to %v of 0 to 100", c.log, c.values, from, to)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1200: "-1,200", 0.5: "0.5", 0.1 + 0.2: "0.3",
		1234.5: "1,234.5", 0.00002: "2e-05"} {
		if got := Number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
