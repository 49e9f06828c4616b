package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/tool"
)

// full is an output that is full after some bytes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

// TestLostOutputIsAnError: an answer that could not be written, or only in part, is no success, and no denial.
func TestLostOutputIsAnError(t *testing.T) {
	const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web"}]}}`
	cases, empty := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(cases, "case.yaml"), []byte("manifest: "+pod+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"review -", "review -o patch -", "review -o json -", "review -o review -",
		"steps", "steps --effective", "steps --gates", "steps -o json",
		"doctor --cluster-dir " + empty, "doctor --list", "doctor - --cluster-dir " + empty, "test " + cases,
		"explain --audit-log ../../samples/audit/audit.log", "schema", "help review", "version", "completion bash", "learn",
		""} {
		for _, room := range []int{0, 10} {
			var errs strings.Builder
			env := tool.Env{Suites: suite.List{colocation.Suite()}, Version: "1.0.0-of-a-test", Streams: cli.Streams{In: strings.NewReader(pod), Out: &full{room}, Err: &errs}}
			code := Run(t.Context(), env, strings.Fields(line))
			if code != 2 || !strings.Contains(errs.String(), "standard output could not be written") {
				t.Errorf("usherctl %s, room for %d bytes: exit code %d, %s", line, room, code, errs.String())
			}
		}
	}
}
