package process

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// fileInDocs matches a Go file in a page: its path, and the block that begins with its package clause.
var fileInDocs = regexp.MustCompile("(?s)`([a-z]+/[a-z_]+\\.go)`[^`]*\n```go\n(package .*?)```")

// TestWritingAStepCompiles compiles the files of docs/writing-a-step.md in their places, and runs the test of the page.
func TestWritingAStepCompiles(t *testing.T) {
	t.Parallel()
	page := harness.ReadFile(t, "docs/writing-a-step.md")
	overlay, dir := map[string]string{}, t.TempDir()
	add := func(file, content string) {
		place, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		overlay[place] = filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(overlay[place], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range fileInDocs.FindAllStringSubmatch(page, -1) {
		add(m[1], m[2])
	}
	if len(overlay) != 4 {
		t.Fatalf("%d files in docs/writing-a-step.md, want 4: %v", len(overlay), overlay)
	}
	check := regexp.MustCompile("(?s)```go\n(func TestTeamLabel.*?)```").FindStringSubmatch(page)
	if check == nil {
		t.Fatal("the page has no TestTeamLabel")
	}
	add("mutators/team_label_test.go", "package mutators\n\nimport \"testing\"\n\n"+check[1])
	add("validators/host_names_test.go", "package validators\n\nimport \"usher.dev/usher/config\"\n\nvar _ = hostNames(&config.Hosts{})\n")
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay="+file, "-run=^TestTeamLabel$", "-v", "./mutators", "./validators", "./config", "./admit").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestTeamLabel") {
		t.Errorf("%v\n%s", err, out)
	}
}
