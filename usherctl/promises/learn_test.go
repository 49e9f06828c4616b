package promises

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/learn"
)

// lessons returns all lessons.
func lessons(t *testing.T) []learn.Lesson {
	t.Helper()
	all, err := learn.Lessons()
	if err != nil || len(all) < 4 {
		t.Fatalf("%d lessons: %v", len(all), err)
	}
	return all
}

// TestLessons: the start state of every lesson lacks something of the task, which the check says in a line, and its solution
// passes. The lessons that need a cluster are tested with one in test/e2e.
func TestLessons(t *testing.T) {
	for _, l := range lessons(t) {
		if l.Needs == "cluster" {
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "lessons")
			if code, out, errors := usherctl(t, "learn", "--dir", dir, l.Name); code != 0 || !strings.Contains(out, l.Title) {
				t.Fatalf("begin: %d %s%s", code, out, errors)
			}
			code, out, errors := usherctl(t, "learn", "check", "-v", "--dir", dir)
			if line, _, _ := strings.Cut(out, "\n"); code != 1 || !slices.ContainsFunc(l.Checks, func(c learn.Check) bool {
				return c.Same == nil && line == "not yet "+l.Name+": "+c.Missing
			}) {
				t.Errorf("the start state: %d, want 1 and the line of a check of the task\n%s%s", code, out, errors)
			}
			if code, _, errors := usherctl(t, "learn", "solution", "--apply", "--dir", dir); code != 0 {
				t.Fatal(errors)
			}
			if code, out, errors := usherctl(t, "learn", "check", "-v", "--dir", dir); code != 0 || !strings.HasPrefix(out, "done "+l.Name) {
				t.Errorf("the solution: %d\n%s%s", code, out, errors)
			}
		})
	}
}

// TestLessonsAreComplete: lessons are numbered without a gap, and can be read: each fits a screen or two, has a task, and
// hints that are not all given at once.
func TestLessonsAreComplete(t *testing.T) {
	all := lessons(t)
	if title := fmt.Sprintf("\n## The %d lessons\n", len(all)); !strings.Contains(harness.ReadFile(t, "docs/learn.md"), title) {
		t.Errorf("docs/learn.md lacks the title %s", title)
	}
	for i, l := range all {
		if l.Number != i+1 {
			t.Errorf("%s is the lesson %d", l.Name, i+1)
		}
		if !strings.Contains(l.Text, "\n## Your task\n") || strings.Count(l.Text, "\n") > 70 || len(l.Hints) < 2 || l.Minutes < 4 || l.Minutes > 10 {
			t.Errorf("%s: %d lines, %d hints, %d minutes; has a task: %v", l.Name, strings.Count(l.Text, "\n"), len(l.Hints), l.Minutes,
				strings.Contains(l.Text, "\n## Your task\n"))
		}
		for _, c := range l.Checks {
			if c.Missing == "" || strings.Contains(c.Missing, "\n") {
				t.Errorf("%s: what is missing is one line: %q", l.Name, c.Missing)
			}
		}
		if l.Needs == "cluster" && (l.Script("start.sh") == "" || l.Script("solution.sh") == "") {
			t.Errorf("%s needs a %s, and has no start.sh and solution.sh", l.Name, l.Needs)
		}
	}
}

// TestLearnAsALearner: hints come one after the other, a reset brings the start back, what is not begun is said, and a
// teacher gets the folders of the class without the solutions.
func TestLearnAsALearner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lessons")
	if code, _, errors := usherctl(t, "learn", "check", "--dir", dir); code != 2 || !strings.Contains(errors, "usherctl learn 1") {
		t.Errorf("nothing begun: %d %s", code, errors)
	}
	usherctl(t, "learn", "1", "--dir", dir)
	for _, want := range []string{"Hint 1 of", "Hint 2 of"} {
		if _, out, _ := usherctl(t, "learn", "hint", "--dir", dir); !strings.HasPrefix(out, want) {
			t.Errorf("%q does not begin with %q", out, want)
		}
	}
	policy := filepath.Join(dir, "01-first-webhook", "policy.yaml")
	before := harness.ReadFile(t, policy)
	if err := os.WriteFile(policy, []byte("names: ["), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := usherctl(t, "learn", "check", "-v", "--dir", dir); code != 1 || !strings.Contains(out, "policy") {
		t.Errorf("a broken file: %d %s", code, out)
	}
	if _, out, _ := usherctl(t, "learn", "1", "--dir", dir); harness.ReadFile(t, policy) != "names: [" || !strings.Contains(out, "begun before") {
		t.Error("beginning again has overwritten the learner's file")
	}
	if usherctl(t, "learn", "reset", "--dir", dir); harness.ReadFile(t, policy) != before {
		t.Error("a reset does not bring the start back")
	}
	if code, _, errors := usherctl(t, "learn", "no-such-lesson", "--dir", dir); code != 2 || !strings.Contains(errors, "no lesson no-such-lesson") {
		t.Errorf("%d %s", code, errors)
	}
	class := t.TempDir()
	if code, _, errors := usherctl(t, "learn", "--export", filepath.Join(class, "out")); code != 0 {
		t.Fatal(errors)
	}
	if code, out, errors := usherctl(t, "learn", "check", "--all", "--dir", filepath.Join(class, "out/class"), "-o", "junit"); code != 1 && code != 2 || !strings.Contains(out, "<testsuites>") {
		t.Errorf("a class: %d %s%s", code, out, errors)
	}
	if harness.Exists(filepath.Join(class, "out/class/01-first-webhook/HINTS.md")) || !harness.Exists(filepath.Join(class, "out/teacher/01-first-webhook/policy.yaml")) {
		t.Error("the hints and solutions are for the teacher only")
	}
}

// TestLearnFromAnyFolder: commands work in the folder of a lesson, also after a reset of it, and in the course's
// folder, and a file that cannot be read is named.
func TestLearnFromAnyFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lessons")
	usherctl(t, "learn", "1", "--dir", dir)
	t.Chdir(filepath.Join(dir, "01-first-webhook"))
	if code, _, errors := usherctl(t, "learn", "reset"); code != 0 {
		t.Fatal(errors)
	}
	if code, out, errors := usherctl(t, "learn", "check"); code != 1 || !strings.HasPrefix(out, "not yet 01-first-webhook") {
		t.Errorf("after a reset in the folder of the lesson: %d %s%s", code, out, errors)
	}
	if err := os.WriteFile("policy.yaml", []byte("env: {}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := usherctl(t, "learn", "check"); !strings.Contains(out, "a file cannot be read: config: ") || strings.Contains(out, dir) {
		t.Errorf("a broken policy: %s", out)
	}
	t.Chdir(dir)
	if code, out, errors := usherctl(t, "learn", "2"); code != 0 || !harness.Exists(filepath.Join(dir, "02-a-refusal/policy.yaml")) {
		t.Errorf("in the folder of the course: %d %s%s", code, out, errors)
	}
	if code, out, errors := usherctl(t, "learn", "check"); code != 1 || !strings.HasPrefix(out, "not yet 02-a-refusal") {
		t.Errorf("in the folder of the course: %d %s%s", code, out, errors)
	}
}

// TestLearnInItsFolders: the commands work in the folder of a lesson, also after a reset, and in that with the lessons.
func TestLearnInItsFolders(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "my lessons")
	if _, out, _ := usherctl(t, "learn", "1", "--dir", dir); !strings.Contains(out, "cd '"+dir+"/01-first-webhook'") {
		t.Errorf("a path with a space is not one word of a shell:\n%s", out)
	}
	t.Chdir(dir)
	if code, out, errors := usherctl(t, "learn", "check"); code != 1 {
		t.Errorf("in the folder with the lessons: %d %s%s", code, out, errors)
	}
	if usherctl(t, "learn", "2"); !harness.Exists(filepath.Join(dir, "02-a-refusal")) || harness.Exists(filepath.Join(top, "02-a-refusal")) {
		t.Error("the second lesson is not beside the first")
	}
	t.Chdir(filepath.Join(dir, "01-first-webhook"))
	if usherctl(t, "learn", "reset"); !harness.Exists("policy.yaml") {
		t.Error("after a reset, a shell in the folder has lost it")
	}
	if code, out, errors := usherctl(t, "learn", "check"); code != 1 || !strings.Contains(out, "01-first-webhook") {
		t.Errorf("after a reset: %d %s%s", code, out, errors)
	}
	if code, _, errors := usherctl(t, "learn", "check", "--dir", filepath.Join(top, "other")); code != 2 || !strings.Contains(errors, "no lesson is begun") {
		t.Errorf("--dir is another folder: %d %s", code, errors)
	}
}

// TestLearnResetAsks: without a terminal, files of a learner's own stay unless --yes says so; they are listed.
func TestLearnResetAsks(t *testing.T) {
	dir := t.TempDir()
	usherctl(t, "learn", "1", "--dir", dir)
	own := filepath.Join(dir, "01-first-webhook", "notes", "mine.txt")
	if err := errors.Join(os.Mkdir(filepath.Dir(own), 0o755), os.WriteFile(own, nil, 0o644), os.WriteFile(own+".old", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if code, out, errors := usherctl(t, "learn", "reset", "--dir", dir); code != 2 || !strings.Contains(out+errors, "\n  notes/mine.txt\n  notes/mine.txt.old\n") || !harness.Exists(own) {
		t.Errorf("%d %s%s", code, out, errors)
	}
	if code, out, errors := usherctl(t, "learn", "reset", "--yes", "--dir", dir); code != 0 || harness.Exists(own) {
		t.Errorf("--yes: %d %s%s", code, out, errors)
	}
}

// TestLearnStateByHand: whatever is in the file of the state, no work of a learner is lost, and no command panics.
func TestLearnStateByHand(t *testing.T) {
	dir := t.TempDir()
	usherctl(t, "learn", "1", "--dir", dir)
	folder := filepath.Join(dir, "01-first-webhook")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("policy.yaml", "mine")
	write(".lesson", "lesson: 01-first-webhook\nhints: -5\n")
	if _, out, errors := usherctl(t, "learn", "hint", "--dir", dir); !strings.HasPrefix(out, "Hint 1 of") {
		t.Errorf("%s%s", out, errors)
	}
	write(".lesson", "[")
	if code, _, errors := usherctl(t, "learn", "1", "--dir", dir); code != 2 || !strings.Contains(errors, "usherctl learn reset") || harness.ReadFile(t, filepath.Join(folder, "policy.yaml")) != "mine" {
		t.Errorf("%d %s", code, errors)
	}
	if code, out, _ := usherctl(t, "learn", "check", "--all", "--dir", dir); code != 2 || !strings.Contains(out, "not checked 01-first-webhook") {
		t.Errorf("a lesson whose state cannot be read is left out: %d %s", code, out)
	}
	write(".lesson", "lesson: another\n")
	write("own.txt", "mine")
	if usherctl(t, "learn", "reset", "1", "--dir", dir); !harness.Exists(filepath.Join(folder, "own.txt")) {
		t.Error("a folder that is not the lesson's was emptied")
	}
}
