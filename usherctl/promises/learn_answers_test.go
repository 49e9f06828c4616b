package promises

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/learn"
)

// edits are changes to the solution of a lesson, by file: a new text, null to remove the file, or what to replace by what.
// The key says has a part of the lines that name the mistake: what is missing, and what the check saw.
type edits map[string]any

// TestAnswersToLessons: what usherctl/learn/testdata/answers calls right is done, and what it calls wrong is not. It has at
// least three right ones for each lesson, spelled differently, and four wrong ones that satisfy the letter of the task.
func TestAnswersToLessons(t *testing.T) {
	for _, l := range lessons(t) {
		if l.Needs == "cluster" {
			continue // see usherctl/learn
		}
		t.Run(l.Name, func(t *testing.T) {
			var all map[string]edits
			if err := yaml.UnmarshalStrict([]byte(harness.ReadFile(t, fmt.Sprintf("usherctl/learn/testdata/answers/%02d.yaml", l.Number))), &all); err != nil {
				t.Fatal(err)
			}
			right := 0
			for _, name := range slices.Sorted(maps.Keys(all)) {
				isRight := strings.HasPrefix(name, "right-")
				if isRight {
					right++
				}
				t.Run(name, func(t *testing.T) { t.Parallel(); testAnswer(t, l, all[name], isRight) })
			}
			if right < 3 || len(all)-right < 4 {
				t.Errorf("%d answers, of which %d are right", len(all), right)
			}
		})
	}
}

// testAnswer checks one answer.
func testAnswer(t *testing.T, l learn.Lesson, answer edits, right bool) {
	course := learn.Course{Dir: t.TempDir()}
	if _, err := course.Begin(l); err != nil {
		t.Fatal(err)
	}
	if err := course.Solve(l); err != nil {
		t.Fatal(err)
	}
	says, _ := answer["says"].(string)
	delete(answer, "says")
	for file, edit := range answer {
		answer.apply(t, filepath.Join(course.Folder(l), file), edit)
	}
	code, out, errors := usherctl(t, "learn", "check", "-v", "--dir", course.Dir)
	lines := strings.SplitN(out, "\n", 3)
	if (code == 0) != right || code > 1 || !strings.Contains(strings.Join(lines[:min(2, len(lines))], "\n"), says) {
		t.Errorf("%d %s%s, and should say %q", code, out, errors, says)
	}
}

// apply changes one file of an answer.
func (edits) apply(t *testing.T, file string, edit any) {
	var text string
	switch e := edit.(type) {
	case nil:
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		return
	case string:
		text = e
	case map[string]any:
		text = harness.ReadFile(t, file)
		for before, after := range e {
			if !strings.Contains(text, before) {
				t.Fatalf("%s has no %q", file, before)
			}
			text = strings.ReplaceAll(text, before, after.(string))
		}
	default:
		t.Fatalf("%s: %v is no edit", file, edit)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
