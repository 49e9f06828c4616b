package binaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOneKubernetesVersion checks that the module's staging replacements have the version that it requires of
// k8s.io/kubernetes.
func TestOneKubernetesVersion(t *testing.T) {
	module, err := Module()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\tk8s.io/kubernetes v1.")
	version, _, _ := strings.Cut(after, "\n")
	replaced := 0
	for line := range strings.Lines(string(text)) {
		module, by, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok || !strings.HasPrefix(module, "k8s.io/") {
			continue
		}
		if replaced++; !strings.HasSuffix(by, " v0."+version) {
			t.Errorf("%s: is replaced by %s, want v0.%s as k8s.io/kubernetes is v1.%[3]s", module, by, version)
		}
	}
	if version == "" || replaced < 20 {
		t.Fatalf("found version %q and %d replacements", version, replaced)
	}
}
