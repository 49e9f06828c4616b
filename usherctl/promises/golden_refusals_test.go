package promises

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/policytest"
)

// TestGoldenRefusals: `usherctl test --coverage` knows the refusals of all samples. `make golden` writes them.
func TestGoldenRefusals(t *testing.T) {
	known := map[string]bool{}
	for _, dir := range harness.SampleDirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*", "*.golden"))
		for _, file := range files {
			_, text, denied := strings.Cut(harness.ReadFile(t, file), "\nstatus:\n")
			if !denied {
				continue
			}
			text, _, _ = strings.Cut(text, "\naudit: ")
			text, _, _ = strings.Cut(text, "\nwarning: ")
			var status metav1.Status
			if err := yaml.Unmarshal([]byte(text), &status); err != nil || status.Details == nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, cause := range status.Details.Causes {
				known[policytest.RefusalOf(cause.Message, cause.Field, string(cause.Type))] = true
			}
		}
	}
	delete(known, "")
	harness.CompareGolden(t, "usherctl/policytest/refusals.txt", strings.Join(slices.Sorted(maps.Keys(known)), "\n")+"\n")
}
