// Command draw reads charts as a JSON list from standard input, and writes them as one SVG: for programs of modules that
// cannot import package plot.
//
//	go run ./test/plot/draw < charts.json > docs/charts.svg
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"usher.dev/usher/test/plot"
)

func main() {
	if err := draw(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

func draw(in io.Reader, out io.Writer) error {
	var charts []plot.Chart
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&charts); err != nil {
		return fmt.Errorf("standard input is no list of charts: %w", err)
	}
	_, err := io.WriteString(out, plot.Page(charts...))
	return err
}
