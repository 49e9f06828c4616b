package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestRecipes: each recipe of docs/recipes.md does what it says, as the cases of test/testdata/recipes show. A recipe
// without a case is a file that no case names, which is an error of usherctl test.
func TestRecipes(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("test/testdata/recipes")); err != nil {
		t.Fatal(err)
	}
	recipes := 0
	for _, section := range strings.Split(harness.ReadFile(t, "docs/recipes.md"), "\n## ")[1:] {
		if block := regexp.MustCompile("(?s)\n```yaml\n(.*?)```").FindStringSubmatch(section); block != nil {
			recipes++
			write(t, filepath.Join(dir, harness.Anchors("# " + section)[0]+".yaml"), block[1])
		}
	}
	if code, out, errors := usherctl(t, "test", dir); code != 0 || recipes < 8 {
		t.Errorf("%d recipes: exit code %d\n%s%s", recipes, code, out, errors)
	}
}

// TestPoliciesOfOthers: each policy in the table beside the names of others is accepted.
func TestPoliciesOfOthers(t *testing.T) {
	_, table, _ := strings.Cut(harness.ReadFile(t, "docs/recipes.md"), "\n## Coming from")
	policies := regexp.MustCompile("(?m)^\\| .*\\| `([^`]*)` \\|$").FindAllStringSubmatch(table, -1)
	if len(policies) < 8 {
		t.Errorf("only %d policies", len(policies))
	}
	for _, policy := range policies {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		write(t, file, policy[1])
		if code, _, errors := usherctl(t, "steps", "--config", file); code != 0 {
			t.Errorf("%s: %s", policy[1], errors)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
