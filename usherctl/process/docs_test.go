package process

import (
	"bytes"
	"encoding/json"
	"os"
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
	if len(overlay) != 2 {
		t.Fatalf("%d files in docs/writing-a-step.md, want 2: %v", len(overlay), overlay)
	}
	check := regexp.MustCompile("(?s)```go\n(func TestTeamLabel.*?)```").FindStringSubmatch(page)
	if check == nil {
		t.Fatal("the page has no TestTeamLabel")
	}
	add("admit/pod_hostname_test.go", numberOfThePage)
	add("mutators/team_label_test.go", "package mutators\n\nimport \"testing\"\n\n"+check[1])
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := harness.Go(t.Context(), "", "test", "-overlay="+file, "-run=^Test(TeamLabel|ANumber)$", "-v", "./mutators", "./admit").CombinedOutput()
	if err != nil || strings.Count(string(out), "\n--- PASS: ") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// numberOfThePage tests the number of the page's second file.
const numberOfThePage = `package admit

import (
	"testing"

	"usher.dev/usher/admit/document"
)

func TestANumber(t *testing.T) {
	d, err := document.Parse([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	pod := AsPod(d)
	if pod.ActiveDeadline() != nil {
		t.Error("a number that is not there")
	}
	if pod.SetActiveDeadline(60); *pod.ActiveDeadline() != 60 {
		t.Error(*pod.ActiveDeadline())
	}
}
`

// TestTryItWithoutACluster runs the commands in the sections "Try it without a cluster" of the pages. What a section
// shows must be in the output of its commands; "…" stands for any text.
func TestTryItWithoutACluster(t *testing.T) {
	pages, _ := filepath.Glob("docs/*.md")
	below, _ := filepath.Glob("docs/*/*.md")
	pages = append(pages, below...)
	tried := 0
	for _, page := range pages {
		_, section, ok := strings.Cut(harness.ReadFile(t, page), "\n## Try it without a cluster\n")
		if !ok {
			continue
		}
		tried++
		section, _, _ = strings.Cut(section, "\n## ")
		t.Run(filepath.Base(page), func(t *testing.T) { trySection(t, section) })
	}
	if tried < 10 {
		t.Errorf("%d pages can be tried without a cluster", tried)
	}
}

// TestUseCasesHaveWalkThroughs: each page in the list of use cases can be tried without a cluster and in one, and its
// policies are valid. The end-to-end tests run the commands for a cluster.
func TestUseCasesHaveWalkThroughs(t *testing.T) {
	_, list, _ := strings.Cut(harness.ReadFile(t, "docs/README.md"), "\n## Use cases")
	list, _, _ = strings.Cut(list, "\n## ")
	links := regexp.MustCompile(`(?m)^- \[([a-z-]+\.md)\]`).FindAllStringSubmatch(list, -1)
	if len(links) < 9 {
		t.Errorf("docs/README.md lists %d use cases", len(links))
	}
	for _, link := range links {
		page := harness.ReadFile(t, filepath.Join("docs", link[1]))
		for _, policy := range regexp.MustCompile("(?s)\n```yaml\n(.*?)```").FindAllStringSubmatch(page, -1) {
			file := filepath.Join(t.TempDir(), "policy.yaml")
			if err := os.WriteFile(file, []byte(policy[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, _, errors := run(t, "", "steps", "--config", file); code != 0 {
				t.Errorf("docs/%s: %s", link[1], errors)
			}
		}
		for _, part := range []string{"\n## Try it without a cluster\n", "\n## Try it in a cluster\n", "\n```console\n$ "} {
			if !strings.Contains(page, part) {
				t.Errorf("docs/%s has no %q", link[1], part)
			}
		}
	}
}

// trySection runs the indented lines of a section that are commands of usher and usherctl, and looks for the others in the output.
func trySection(t *testing.T, section string) {
	var commands, shown []string
	for paragraph := range strings.SplitSeq(section, "\n\n") {
		output := ""
		for line := range strings.Lines(paragraph) {
			line, isCode := strings.CutPrefix(line, "    ")
			command := strings.TrimPrefix(strings.TrimSpace(line), "bin/")
			isCommand := strings.HasPrefix(command, "usher ") || strings.HasPrefix(command, "usherctl ")
			switch {
			case !isCode || strings.HasPrefix(line, "make ") || strings.HasPrefix(line, "curl "):
			case isCommand:
				commands = append(commands, command)
			default:
				output += line
			}
		}
		shown = append(shown, output)
	}
	var printed string
	for _, command := range commands {
		var out, errors bytes.Buffer
		words := strings.Fields(command)
		if code := runAs(words[0], strings.NewReader(""), &out, &errors, words[1:]...); code > 1 {
			t.Errorf("%s\nexits with %d: %s", command, code, &errors)
		}
		printed += out.String()
	}
	for _, output := range shown {
		if !containsInOrder(printed, output) {
			t.Errorf("the page shows\n%s\nbut its commands print\n%s", output, printed)
		}
	}
}

// containsInOrder reports whether a text contains the parts of another one between "…", in order. Consecutive white
// space counts as one space.
func containsInOrder(text, other string) bool {
	text = strings.Join(strings.Fields(text), " ")
	for part := range strings.SplitSeq(other, "…") {
		_, after, ok := strings.Cut(text, strings.Join(strings.Fields(part), " "))
		if !ok {
			return false
		}
		text = after
	}
	return true
}
