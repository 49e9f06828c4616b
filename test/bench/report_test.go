package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/bench/report"
)

var update = flag.Bool("update", false, "rewrite the goldens from what the code does")

const sample = "testdata/report.json" // the first review has all cells, the second only one

func sampleReport(t *testing.T) *Report {
	t.Helper()
	r, err := report.Read[Report](sample)
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
	const file = "testdata/markdown.golden"
	got := markdown(sampleReport(t))
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := readFile(t, file); got != want {
		t.Errorf("%s differs; if it is meant, `go test . -update` rewrites it. got:\n%s", file, got)
	}
}

func TestReportIsReadAsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	if err := report.Write(file, sampleReport(t)); err != nil {
		t.Fatal(err)
	}
	if got, want := readFile(t, file), readFile(t, sample); got != want {
		t.Errorf("written again it is:\n%s", got)
	}
}

// TestDocsAreOfTheData: the tables in docs are made of the data beside them.
func TestDocsAreOfTheData(t *testing.T) {
	docs, written := filepath.Join("..", "..", "docs", "design"), t.TempDir()
	for _, name := range []string{place.Page, place.Data, growthPlace.Data} {
		if err := os.WriteFile(filepath.Join(written, name), []byte(readFile(t, filepath.Join(docs, name))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"-draw"}, {"growth", "-draw"}} {
		if err := command(t.Context(), append(args, "-docs", written), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{place.Page, place.Data, growthPlace.Data} {
		if readFile(t, filepath.Join(written, name)) != readFile(t, filepath.Join(docs, name)) {
			t.Errorf("docs/design/%s is not made of the data beside it: `bin/load -draw && bin/load growth -draw` writes it", name)
		}
	}
}

func TestAims(t *testing.T) {
	var got []string
	for _, a := range aims(sampleReport(t)) {
		got = append(got, a.String())
	}
	if want := "20KB-pod-changed: CPU 3.00 × constant, aim 2 ×: MISSED"; strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
