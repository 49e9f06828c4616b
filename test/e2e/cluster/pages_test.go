package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

// TestSoakPages pastes the commands of the pages in docs/ that are for `make cluster`, the blocks that begin with
// ```console, and compares the output with the printed one. USHER_PAGES=labels.md,rules.md runs only those.
func TestSoakPages(t *testing.T) {
	if os.Getenv("USHER_SOAK") == "" {
		t.Skip("takes minutes and all programs of the demo; `make soak` runs it")
	}
	root, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	pages := consoles(t, filepath.Join(root, "docs"))
	cluster := startCommand(t)
	setup, _ := readGuide(t, cluster.out)
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			for _, try := range page.tries {
				if !attempt(t, setup, try) {
					break
				}
			}
		})
	}
	cluster.terminate(t)
}

// page is a page with commands for a cluster.
type page struct {
	name  string
	tries []try
}

// consoles returns the pages of a directory that have blocks for a console.
func consoles(t *testing.T, dir string) (pages []page) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*.md"))
	only := os.Getenv("USHER_PAGES")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		if tries := consoleOf(string(text)); len(tries) > 0 && (only == "" || strings.Contains(only, name)) {
			pages = append(pages, page{name, tries})
		}
	}
	if len(pages) == 0 {
		t.Fatalf("no page of %s has a block for a console", dir)
	}
	return pages
}

// consoleOf returns the commands of a page, each after "$ ", and the lines of output that follow them.
func consoleOf(text string) (tries []try) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case isCommand:
			tries = append(tries, try{command: command})
		case len(tries) > 0 && line != "":
			last := &tries[len(tries)-1]
			last.answers = append(last.answers, line)
		}
	}
	return tries
}
