// Package newstep tests what `usherctl new step` writes, in a copy of the checkout: with the goldens that it writes too, the tests of the
// house pass at once.
package newstep

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestNewStep(t *testing.T) {
	dir := copyOf(t, filepath.Join("..", "..", ".."))
	for _, line := range []string{
		"go build -C usherctl -o ../bin/usherctl .",
		"bin/usherctl new step mark-pods --no-golden",
		"bin/usherctl new step good-pods --validator",
		"bin/usherctl new step known-pods --validator --section",
		"bin/usherctl new step settled-pods --section",
		"go vet ./mutators ./validators",
		"go test -short ./mutators ./validators ./test/promises",
		"go test ./test/process -run 'Golden|EverythingTogether|HalfAPolicy'",
		"cd usherctl && go test ./promises -skip Lessons$",
		"cd usherctl && go test ./process -run 'Golden|SamplesAreTested'",
	} {
		run := exec.CommandContext(t.Context(), "sh", "-c", line)
		run.Dir, run.Env = dir, append(os.Environ(), "USHER_NEW_STEPS=1")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// copyOf returns a new folder with a copy of a checkout.
func copyOf(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		from, to := filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())
		switch {
		case e.Name() == ".git" || e.Name() == "bin":
		case e.IsDir():
			err = os.CopyFS(to, os.DirFS(from))
		default:
			var text []byte
			if text, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, text, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
