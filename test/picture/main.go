// Command picture draws text from standard input as an SVG of a terminal, for light and dark pages:
//
//	echo '$ date' | cat - output.txt | go run ./test/picture "title" > picture.svg
package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
)

// The grid, in pixels: a cell of the monospaced font, and the margin around the text. A line has at most maxColumns.
const (
	cellWidth, cellHeight, margin = 7.83, 18.0, 16.0
	maxColumns                    = 118
)

const style = `<style>
.page{fill:#f6f8fa;stroke:#d0d7de} .text{fill:#1f2328} .prompt{fill:#0969da;font-weight:600} .good{fill:#1a7f37} .bad{fill:#cf222e} .quiet{fill:#59636e}
@media (prefers-color-scheme: dark){.page{fill:#0d1117;stroke:#30363d} .text{fill:#e6edf3} .prompt{fill:#58a6ff} .good{fill:#3fb950} .bad{fill:#f85149} .quiet{fill:#9198a1}}
</style>
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: picture TITLE < text > picture.svg")
		os.Exit(2)
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(draw(os.Args[1], string(text)))
}

// draw returns the SVG of a text.
func draw(title, text string) string {
	var lines []string
	columns := 0
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		for _, part := range wrap(strings.TrimRight(line, "\n")) {
			lines, columns = append(lines, part), max(columns, len([]rune(part)))
		}
	}
	width, height := float64(columns)*cellWidth+2*margin, float64(len(lines))*cellHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-labelledby="title" `, width, height)
	fmt.Fprintf(&b, "font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"13\">\n")
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n%s", escaped(title), style)
	fmt.Fprintf(&b, "<rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"%.0f\" height=\"%.0f\" rx=\"8\"/>\n", width-1, height-1)
	kind := "text"
	for i, line := range lines {
		if kind = class(line, kind); line != "" {
			fmt.Fprintf(&b, "<text class=\"%s\" xml:space=\"preserve\" x=\"%.0f\" y=\"%.0f\">%s</text>\n",
				kind, margin, margin+float64(i+1)*cellHeight-5, escaped(line))
		}
	}
	return b.String() + "</svg>\n"
}

// wrap cuts a line into parts of at most maxColumns, at spaces. The parts after the first are indented further.
func wrap(line string) (parts []string) {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))] + "  "
	for len([]rune(line)) > maxColumns {
		at := strings.LastIndex(string([]rune(line)[:maxColumns]), " ")
		if at <= len(indent) {
			break
		}
		parts, line = append(parts, line[:at]), indent+line[at+1:]
	}
	return append(parts, line)
}

// class returns the style of a line: by its first character in the part that compares two objects, otherwise by its
// words. A wrapped line keeps the style of a message before it.
func class(line, before string) string {
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return "text"
	case words[0] == "$":
		return "prompt"
	case strings.HasPrefix(line, "+"), words[0] == "allowed":
		return "good"
	case strings.HasPrefix(line, "-"), words[0] == "denied", words[0] == "message:", words[len(words)-1] == "refused":
		return "bad"
	case strings.HasPrefix(line, "      ") && before == "bad":
		return "bad"
	case strings.HasPrefix(line, "@@"), strings.HasPrefix(words[0], "/"):
		return "quiet"
	}
	return "text"
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}
