package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The files of a run, in docs.
const dataFile, plotFile, pageFile = "performance.json", "performance.svg", "performance.md"

// The marks around the table in the page.
const tableBegins, tableEnds = "<!-- load: begin -->\n", "<!-- load: end -->"

// write writes the data, the plot and the table of a run.
func (r *Report) write(docs string) error {
	page := filepath.Join(docs, pageFile)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), tableBegins, tableEnds, summary(r))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := writeReport(filepath.Join(docs, dataFile), r); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(docs, plotFile), []byte(plot(r)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(page, []byte(filled), 0o644)
}

// fill returns a page with other content between two marks.
func fill(page, begins, ends, content string) (string, error) {
	before, rest, begun := strings.Cut(page, begins)
	_, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		return "", fmt.Errorf("has no lines %q and %q", strings.TrimSpace(begins), ends)
	}
	return before + begins + content + ends + after, nil
}
