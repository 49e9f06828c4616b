package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// TestRunReportsWhyItEnded runs the command with programs that are missing, and with programs that end at once.
func TestRunReportsWhyItEnded(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"missing programs", "", "build it first"},
		{"programs that end", "#!/bin/sh\necho no such flag\nexit 3\n", "API server is not ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(binaries.FolderVariable, t.TempDir())
			if c.script != "" {
				writePrograms(t, c.script)
			}
			err := run(nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run() = %v, want an error with %q", err, c.want)
			}
		})
	}
}

// writePrograms writes a script in place of each program.
func writePrograms(t *testing.T, script string) {
	t.Helper()
	for _, name := range binaries.All {
		file, err := binaries.Path(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Clean(file), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPagesToTry expects a page whose title and commands are known.
func TestPagesToTry(t *testing.T) {
	root, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("USHER_PAGES", "") // all of them
	want := [2]string{"docs/labels.md", "Labels and annotations"}
	if pages := pagesToTry(root); !slices.Contains(pages, want) || len(pages) != len(consoles(t, filepath.Join(root, "docs"))) {
		t.Errorf("pages to try: %q; want all that have a console, with %q", pages, want)
	}
}
