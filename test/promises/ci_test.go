package promises

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCIRunsEachPart: the workflow has a job for each target of .ci/run, and each action is named by its digest.
func TestCIRunsEachPart(t *testing.T) {
	run, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	workflow, err := os.ReadFile(".github/workflows/ci.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`part: \[(.*)\]`).FindStringSubmatch(string(workflow))
	if list == nil {
		t.Fatal("the workflow has no list of parts")
	}
	targets := regexp.MustCompile(`(?m)^make (.*)$`).FindAllStringSubmatch(string(run), -1)
	for _, target := range targets {
		if !slices.Contains(strings.Split(list[1], ", "), target[1]) {
			t.Errorf("the workflow has no job for make %s", target[1])
		}
	}
	if len(targets) < 7 {
		t.Errorf(".ci/run has the targets %v", targets)
	}
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v[\d.]+$`)
	for _, file := range []string{".github/workflows/ci.yaml", ".github/workflows/release.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s uses %s, not by a digest and with its version", file, action[1])
			}
		}
	}
}
