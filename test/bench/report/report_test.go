package report

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sampleData is the data of a run.
type sampleData struct {
	Head
	Cells []sampleCell `json:"cells"`
}

type sampleCell struct {
	Name   string    `json:"name"`
	Rounds []float64 `json:"rounds"`
}

const sampleText = `{
  "date": "",
  "commit": "abc",
  "go": "",
  "cpu": "",
  "cores": 0,
  "rounds": 0,
  "quick": false,
  "cells": [
    {"name":"{ \"one\"\n    }","rounds":[1,2]},
    {"name":"two","rounds":null}
  ]
}
`

func sampleRun() *sampleData {
	return &sampleData{Head: Head{Commit: "abc"}, Cells: []sampleCell{{"{ \"one\"\n    }", []float64{1, 2}}, {"two", nil}}}
}

var samplePlace = Place{"data.json", "page.md", "<!-- begin -->", "<!-- end -->"}

func sampleOf(measured *sampleData, err error) Run[sampleData] {
	return Run[sampleData]{Place: samplePlace,
		Measure: func(_ context.Context, o Options, _ io.Writer) (*sampleData, error) {
			if measured != nil {
				measured.Quick = o.Quick
			}
			return measured, err
		},
		Section: func(d *sampleData) string { return "of " + d.Commit + "\n" },
	}
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docsWith returns a directory with a page.
func docsWith(t *testing.T, page string) string {
	t.Helper()
	docs := t.TempDir()
	if err := os.WriteFile(filepath.Join(docs, "page.md"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	return docs
}

func run(t *testing.T, r Run[sampleData], args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := r.Command(t.Context(), flag.NewFlagSet("sample", flag.ContinueOnError), args, &out, io.Discard)
	return out.String(), err
}

// TestRunWrites: what a run writes into docs can be written again from its data.
func TestRunWrites(t *testing.T) {
	docs := docsWith(t, "before\n<!-- begin -->\nold\n<!-- end -->\nafter\n")
	printed, err := run(t, sampleOf(sampleRun(), nil), "-write", "-docs", docs)
	if err != nil || printed != "of abc\n" {
		t.Errorf("printed %q: %v", printed, err)
	}
	for range 2 {
		if data := readFile(t, filepath.Join(docs, "data.json")); data != sampleText {
			t.Errorf("the data is\n%s", data)
		}
		if page := readFile(t, filepath.Join(docs, "page.md")); page != "before\n<!-- begin -->\nof abc\n<!-- end -->\nafter\n" {
			t.Errorf("the page is\n%s", page)
		}
		if printed, err := run(t, sampleOf(nil, errors.New("measured")), "-draw", "-docs", docs); err != nil || printed != "" {
			t.Errorf("-draw printed %q: %v", printed, err)
		}
	}
}

// TestRunThatFails: what was measured before is printed and written as data, but not into docs.
func TestRunThatFails(t *testing.T) {
	docs, failure := docsWith(t, "no marks"), errors.New("broken")
	out := filepath.Join(docs, "out.json")
	printed, err := run(t, sampleOf(sampleRun(), failure), "-quick", "-write", "-docs", docs, "-out", out)
	if !errors.Is(err, failure) || printed != "of abc\n" {
		t.Errorf("printed %q: %v", printed, err)
	}
	if data := readFile(t, out); data != strings.Replace(sampleText, `"quick": false`, `"quick": true`, 1) {
		t.Errorf("the data is\n%s", data)
	}
	if printed, err := run(t, sampleOf(nil, failure)); !errors.Is(err, failure) || printed != "" {
		t.Errorf("printed %q: %v", printed, err)
	}
	if _, err := run(t, sampleOf(sampleRun(), nil), "pods"); err == nil || !strings.Contains(err.Error(), `sample: unknown argument "pods"`) {
		t.Error(err)
	}
}

func TestPageNeedsItsMarks(t *testing.T) {
	for _, page := range []string{"", "a\nb\n", "<!-- begin -->\n", "<!-- end -->\n", "<!-- end -->\n<!-- begin -->\n"} {
		docs := docsWith(t, page)
		_, err := run(t, sampleOf(sampleRun(), nil), "-write", "-docs", docs)
		if err == nil || !strings.Contains(err.Error(), "has no lines") || readFile(t, filepath.Join(docs, "page.md")) != page {
			t.Errorf("%q: %v", page, err)
		}
		if _, err := os.Stat(filepath.Join(docs, "data.json")); err == nil {
			t.Errorf("%q: the data is written", page)
		}
	}
}

func TestReadNamesTheFile(t *testing.T) {
	file := filepath.Join(docsWith(t, "{"), "page.md")
	if _, err := Read[sampleData](file); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
}
