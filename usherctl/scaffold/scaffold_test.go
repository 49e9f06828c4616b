package scaffold

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSteps writes each kind of step into a copy of the files that it changes: they are formatted, vetted, and pass their tests. The
// goldens are tested in test/e2e/newstep.
func TestSteps(t *testing.T) {
	root, dir := checkout(t), t.TempDir()
	for _, file := range []string{"go.mod", "mutators/mutators.go", "validators/validators.go", "samples/policy.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file), string(text))
	}
	for _, below := range []string{"samples/policies", "test/testdata/reviews/mutate-pods", "test/testdata/reviews/validate-pods"} {
		if err := os.MkdirAll(filepath.Join(dir, below), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	overlay := map[string]string{}
	for name, is := range map[string]Step{"one": {}, "step-two": {Section: true}, "step-three": {Validator: true}, "the-step-four": {Section: true, Validator: true}} {
		step, err := New(dir, name, is.Section, is.Validator)
		if err != nil {
			t.Fatal(err)
		}
		files, err := step.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if filepath.Ext(file) == ".go" {
				overlay[filepath.Join(root, file)] = filepath.Join(dir, file)
			}
		}
	}
	for file, want := range map[string]string{
		"samples/policy.yaml": "\ntheStepFour:\n(.*\n)*.*\nmodes:\n(.*\n)*overrides:\n(- .*\n|  .*\n)*$",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s does not match %q: %v\n%s", file, want, err, text)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "gofmt", "-l", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v %s", err, out)
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), string(raw))
	run := exec.CommandContext(t.Context(), "go", "test", "-trimpath", "-v", "-overlay="+filepath.Join(dir, "overlay.json"),
		"-run=^Test(One|StepTwo|StepThree|TheStepFour)$", "./mutators", "./validators")
	run.Dir, run.Env = root, append(os.Environ(), "CGO_ENABLED=0") // the flags of the Makefile: nothing is compiled twice
	out, err := run.CombinedOutput()
	if passed := strings.Count(string(out), "\n--- PASS: "); err != nil || passed != 4 {
		t.Errorf("%d of 4 tests have passed, %v:\n%s", passed, err, out)
	}
}

func TestRefused(t *testing.T) {
	root := checkout(t)
	for _, c := range []struct{ root, name, want string }{
		{root, "Team", "is no name for a step"},
		{root, "team_label", "is no name for a step"},
		{root, "func", "is no name for a step"},
		{root, "", "is no name for a step"},
		{root, "environment", "environment.go exists"},
		{root, "variable", `has "type Variable"`},
		{root, "nodes", `has "func Nodes"`},
		{t.TempDir(), "team-label", "is no checkout of usher"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := New(c.root, c.name, true, false); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func checkout(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func write(t *testing.T, file, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
