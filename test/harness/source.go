package harness

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Go returns a go command, such as go build, in a folder with the flags of the Makefile: what it needs is compiled only once, also for
// tests that run without make, or with the race detector.
func Go(ctx context.Context, dir, command string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{command, "-trimpath"}, args)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	return cmd
}

// GoFiles returns the Go files of the root module, and of the modules in the named folders.
func GoFiles(t testing.TB, modules ...string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || Exists(filepath.Join(path, "go.mod")) && !slices.Contains(modules, path)) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			files = append(files, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil || len(files) < 20 {
		t.Fatalf("%d Go files: %v", len(files), err)
	}
	return files
}

// Source returns the code in GoFiles, without tests.
func Source(t testing.TB, modules ...string) string {
	t.Helper()
	var b strings.Builder
	for _, file := range GoFiles(t, modules...) {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "test/") {
			b.WriteString(ReadFile(t, file))
		}
	}
	return b.String()
}

// Pages returns the pages for human readers, by file name.
func Pages(t testing.TB) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "deploy/*/*.md", "samples/*.md", "colocation/*.md", "test/e2e/*.md", ".github/*.md"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			pages[file] = ReadFile(t, file)
		}
	}
	if len(pages) < 40 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	return pages
}

// WithoutCode returns a page without its code: fenced blocks, and spans.
func WithoutCode(page string) string { return code.ReplaceAllString(page, "") }

var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// Anchors returns the anchors that GitHub makes of the headings of a page.
func Anchors(page string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		anchor := regexp.MustCompile("[^a-z0-9 _-]").ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(anchor, " ", "-"))
	}
	return all
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
