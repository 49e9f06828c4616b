package promises

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// room returns the part of a budget that is left to the steps of test/e2e/newstep, which sets USHER_NEW_STEPS to use it.
func room(n int) int {
	if os.Getenv("USHER_NEW_STEPS") != "" {
		return 0
	}
	return n
}

// sizes are the budgets of lines of Go. One that is passed is raised only in a commit of its own, which says what was weighed.
var sizes = []struct {
	name   string
	counts func(file string) bool
	most   int
}{
	{"the service", isService, 57_300 - room(150)},                                          // the aim is 53,500
	{"usherctl", func(f string) bool { return below(f, "usherctl") && !isTest(f) }, 36_700}, // the aim is 26,500: replay and explain first
	{"admit", func(f string) bool { return path.Dir(f) == "admit" && !isTest(f) }, 2_900},
	{"handlers", func(f string) bool { return below(f, "handlers") && !isTest(f) }, 1_750},
	{"command", func(f string) bool { return below(f, "command") && !isTest(f) }, 2_000},
	{"the tests", isTest, 119_050 - room(100)}, // the aim is 104,500: one harness of clusters
}

func isTest(file string) bool { return strings.HasSuffix(file, "_test.go") || below(file, "test") }

func isService(file string) bool {
	return !isTest(file) && !below(file, "usherctl", "deploy/release", "samples")
}

// below reports whether a file is in one of the folders.
func below(file string, folders ...string) bool {
	for _, folder := range folders {
		if strings.HasPrefix(file, folder+"/") {
			return true
		}
	}
	return false
}

// TestSizes: each part of the repository keeps to its budget of lines.
func TestSizes(t *testing.T) {
	lines := map[string]int{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || file == "bin") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, ".go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, s := range sizes {
			if s.counts(filepath.ToSlash(file)) {
				lines[s.name] += bytes.Count(text, []byte("\n"))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sizes {
		if is := lines[s.name]; is > s.most || is < s.most/2 {
			t.Errorf("%s: %d lines, at most %d: look for what can go", s.name, is, s.most)
		}
		t.Logf("%s: %d lines, at most %d", s.name, lines[s.name], s.most)
	}
}

// TestUsherIsSmall: the server's binary has at most 38 MB and 325 packages of others.
func TestUsherIsSmall(t *testing.T) {
	const mostBytes, mostPackages = 38_000_000, 325
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, path := range strings.Fields(string(out)) {
		if path != "usher.dev/usher" && !strings.HasPrefix(path, "usher.dev/usher/") {
			others++
		}
	}
	if t.Logf("%d packages of others", others); others > mostPackages || others < 100 {
		t.Errorf("%d packages of others, at most %d", others, mostPackages)
	}
	holdBytes(t, ".", mostBytes)
}

// TestSmallestIsSmall: the smallest program has at most 18 MB.
func TestSmallestIsSmall(t *testing.T) { holdBytes(t, "samples/smallest", 18_000_000) }

// holdBytes fails the test if the program in a folder, built as for a release, has more bytes.
func holdBytes(t *testing.T, dir string, most int64) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a program")
	}
	binary := filepath.Join(t.TempDir(), "program")
	if out, err := harness.Go(t.Context(), dir, "build", "-ldflags", "-s -w", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d bytes", info.Size()); info.Size() > most {
		t.Errorf("%d bytes, at most %d", info.Size(), most)
	}
}
