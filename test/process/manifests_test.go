package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestManifestGoldens reviews manifests as people write them: output of Helm and kustomize, lists, workloads, CRDs, typos. A first line such as
// "# usherctl review --strict; exit code 1" says with which flags, else there are none.
func TestManifestGoldens(t *testing.T) {
	files, err := filepath.Glob("test/testdata/manifests/*.*")
	if err != nil {
		t.Fatal(err)
	}
	reviewed := 0
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		reviewed++
		t.Run(filepath.Base(file), func(t *testing.T) {
			args := append([]string{"review"}, flagsOf(t, file)...)
			_, out, complaints := run(t, "", append(args, file)...)
			harness.CompareGolden(t, file+".golden", out+complaints)
		})
	}
	if reviewed < 20 {
		t.Errorf("only %d manifests in test/testdata/manifests", reviewed)
	}
}

func flagsOf(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	flags, found := strings.CutPrefix(line, "# usherctl review ")
	if !found {
		return nil
	}
	flags, _, _ = strings.Cut(flags, ";")
	return strings.Fields(flags)
}
