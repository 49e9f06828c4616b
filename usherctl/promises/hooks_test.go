package promises

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/test/harness"
)

// TestPreCommitHooks: the hooks judge the folders that args names, which have the objects that others depend on, and not the files that changed.
func TestPreCommitHooks(t *testing.T) {
	var hooks []struct {
		ID, Entry string
		Passes    *bool `json:"pass_filenames"`
	}
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, ".pre-commit-hooks.yaml")), &hooks); err != nil || len(hooks) != 2 {
		t.Fatal(err, hooks)
	}
	for _, h := range hooks {
		folder := map[string]string{"usherctl-test": "samples/tests/team-labels", "usherctl-review": "samples/manifests"}[h.ID]
		code, out, errors := usherctl(t, append(strings.Fields(h.Entry)[1:], folder)...)
		if code == 2 || h.Passes == nil || *h.Passes || !strings.Contains(harness.ReadFile(t, "docs/gitops.md"), "{id: "+h.ID+", args: [") {
			t.Errorf("%+v: %d\n%s%s", h, code, out, errors)
		}
	}
}
