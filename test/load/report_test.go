package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the goldens from what the code does")

const sample = "testdata/report.json" // the first review has all cells, the second only one

func sampleReport(t *testing.T) *Report {
	t.Helper()
	r, err := readReport(sample)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGoldens(t *testing.T) {
	r := sampleReport(t)
	for name, got := range map[string]string{"table.golden": table(r), "markdown.golden": markdown(r)} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := readFile(t, file); got != want {
			t.Errorf("%s differs; if it is meant, `go test ./load -update` rewrites it. got:\n%s", file, got)
		}
	}
}

func TestReportIsReadAsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	if err := writeReport(file, sampleReport(t)); err != nil {
		t.Fatal(err)
	}
	if got, want := readFile(t, file), readFile(t, sample); got != want {
		t.Errorf("written again it is:\n%s", got)
	}
}

// TestDocsAreOfTheData: the table and the picture in docs are made of the data beside them.
func TestDocsAreOfTheData(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	r, err := readReport(filepath.Join(docs, dataFile))
	if err != nil {
		t.Fatal(err)
	}
	page := readFile(t, filepath.Join(docs, pageFile))
	filled, err := fill(page, tableBegins, tableEnds, summary(r))
	if err != nil || filled != page || readFile(t, filepath.Join(docs, plotFile)) != plot(r) {
		t.Errorf("docs/%s or docs/%s is not made of docs/%s: `bin/load --draw` writes them; %v", pageFile, plotFile, dataFile, err)
	}
}

func TestAims(t *testing.T) {
	var got []string
	for _, a := range aims(sampleReport(t)) {
		got = append(got, a.String())
	}
	want := []string{
		"20KB-pod-changed at 8 connections: CPU 3.00 × constant, aim 2.1 ×: MISSED",
		"20KB-pod-changed at 64 connections: CPU 1.75 × constant, aim 1.8 ×: met",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	bars := map[string]int{}
	for name, r := range map[string]*Report{"sample": sampleReport(t), "empty": {}} {
		d := xml.NewDecoder(strings.NewReader(plot(r)))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, plot(r))
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
				bars[name]++
			}
			if e, ok := token.(xml.StartElement); ok {
				for _, a := range e.Attr {
					if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") || strings.Contains(a.Value, "%!") {
						t.Errorf("%s: %s has %s=%q", name, e.Name.Local, a.Name.Local, a.Value)
					}
				}
			}
		}
	}
	if bars["sample"] != 3+3 || bars["empty"] != 3 { // three in the legend
		t.Errorf("rectangles: %v", bars)
	}
}
