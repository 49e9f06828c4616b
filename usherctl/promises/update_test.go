package promises

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestUpdateKeepsLineEnds: a file with the line ends of Windows keeps them.
func TestUpdateKeepsLineEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "case.yaml")
	text := strings.ReplaceAll("expect: # here\n  verdict: denied # why\n\n# the pod\nmanifest: {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: b}]}}\n", "\n", "\r\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	usherctl(t, "test", "--update", filepath.Dir(file))
	if got, want := harness.ReadFile(t, file), strings.Replace(text, "denied", "allowed", 1); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
