package promises

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// The pages that answer threats and a checklist: docs/design/threat-model.md and docs/design/checklist.md.
var threatPages = []string{"docs/design/threat-model.md", "docs/design/checklist.md"}

// namedTests matches tests in a page, and the packages behind them: `TestA`, `TestB` (certs, test/e2e).
var namedTests = regexp.MustCompile("((?:`(?:Test|Fuzz|Benchmark)\\w+`(?:, )?)+) \\(([a-z0-9/, ]+)\\)")

// TestThreatPagesNameRealTests: every test that the pages name is in each of the packages that they name with it, in any
// module of the repository.
func TestThreatPagesNameRealTests(t *testing.T) {
	known := testsByPackage(t)
	name := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)\\w+)`")
	for _, page := range threatPages {
		text, found := harness.ReadFile(t, page), 0
		for _, m := range namedTests.FindAllStringSubmatch(text, -1) {
			for _, test := range name.FindAllStringSubmatch(m[1], -1) {
				found++
				for pkg := range strings.SplitSeq(m[2], ", ") {
					if !known[pkg][test[1]] {
						t.Errorf("%s names %s of package %s, which does not exist", page, test[1], pkg)
					}
				}
			}
		}
		if all := len(name.FindAllString(text, -1)); all != found || found < 40 {
			t.Errorf("%s names %d tests, but only %d with their packages", page, all, found)
		}
	}
}

// testsByPackage returns the names of all tests by their folders.
func testsByPackage(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if all[pkg] == nil {
			all[pkg] = map[string]bool{}
		}
		for _, m := range declared.FindAllStringSubmatch(harness.ReadFile(t, path), -1) {
			all[pkg][m[1]] = true
		}
		return nil
	})
	if err != nil || len(all) < 40 {
		t.Fatalf("%d packages with tests: %v", len(all), err)
	}
	return all
}

// TestThreatPagesNameRealThings: every flag, alert, metric, section of the policy and file that the pages name exists.
func TestThreatPagesNameRealThings(t *testing.T) {
	commands := harness.ReadFile(t, "docs/command-line.md")
	foreign := []string{"--as"} // of kubectl
	for _, page := range threatPages {
		text := harness.ReadFile(t, page)
		for _, flag := range regexp.MustCompile("`[^`]*`").FindAllString(text, -1) {
			for _, f := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(flag, -1) {
				if !strings.Contains(commands, f+" ") && !slices.Contains(foreign, f) {
					t.Errorf("%s: %s: no command has the flag %s", page, flag, f)
				}
			}
		}
		for _, m := range regexp.MustCompile("`(Usher[A-Za-z]+)`").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(harness.ReadFile(t, "deploy/monitoring/rules.yaml"), "alert: "+m[1]+"\n") {
				t.Errorf("%s: there is no alert %s", page, m[1])
			}
		}
		for _, m := range regexp.MustCompile("`([A-Za-z0-9_-]+/[A-Za-z0-9_./-]+\\.[a-z]+)`").FindAllStringSubmatch(text, -1) {
			if !harness.Exists(m[1]) {
				t.Errorf("%s: there is no file %s", page, m[1])
			}
		}
	}
}

// TestEveryThreatIsAnswered: each of the 18 threats has a section with all four answers.
func TestEveryThreatIsAnswered(t *testing.T) {
	page := harness.ReadFile(t, "docs/design/threat-model.md")
	for n := 1; n <= 18; n++ {
		_, section, _ := strings.Cut(page, fmt.Sprintf("\n## %d. ", n))
		section, _, _ = strings.Cut(section, "\n## ")
		for _, answer := range []string{"usher", "you set", "tests", "remains"} {
			if !regexp.MustCompile(`(?m)^- \*\*` + answer + `\*\*: \S`).MatchString(section) {
				t.Errorf("threat %d has no answer %q", n, answer)
			}
		}
	}
}

// TestChecklistAddsUp: each entry of the list names a test, and each that is met in part also says what is missing.
func TestChecklistAddsUp(t *testing.T) {
	_, page, found := strings.Cut(harness.ReadFile(t, "docs/design/checklist.md"), "\n## Met in part\n")
	inPart, met, more := strings.Cut(page, "\n## ")
	for missing, text := range map[bool]string{true: inPart, false: met} {
		entries := strings.Split(text, "\n- ")[1:]
		for _, entry := range entries {
			if !namedTests.MatchString(entry) || strings.Contains(entry, "**Missing:** ") != missing {
				t.Errorf("want a test, and only what is met in part says what is missing: %s", entry)
			}
		}
		if !found || !more || len(entries) < 7 {
			t.Errorf("only %d entries", len(entries))
		}
	}
}
