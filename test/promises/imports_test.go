package promises

import (
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// floors are the rules of the house: what a folder of the product may import of usher, with everything below it. Its own
// folders are always allowed. The first row that matches a package counts.
var floors = []struct {
	room string
	may  []string
}{
	{"internal", nil},
	{"samples/smallest", []string{"validators", "mutators", "handlers", "certs", "config", "admit", "internal"}},
	{"samples", nil},
	{"admit", []string{"internal"}},
	{"config", []string{"admit", "internal"}},
	{"mutators", []string{"config", "admit", "internal"}},
	{"validators", []string{"mutators", "config", "admit", "internal"}},
	{"handlers", []string{"admit", "internal"}},
	{"cluster", []string{"admit", "internal"}},
	{"certs", []string{"internal"}},
	{"server", []string{"handlers", "cluster", "certs", "config", "admit", "internal"}},
	{"command", []string{"server", "validators/workload", "handlers", "cluster", "certs", "config", "admit", "samples", "internal"}},
	{"colocation", []string{"server/suite", "validators", "mutators", "handlers", "cluster", "config", "admit", "internal"}},
	{"routes", []string{"colocation", "server/suite", "validators", "mutators", "cluster", "config", "admit"}},
	{".", []string{"routes", "command", "server"}},
}

// foreign are the packages of others that steps, and what they stand on, must not import.
var foreign = []string{"net/http", "k8s.io/client-go"}

// TestImportsRunOneWay: only routes imports the colocation suite, and the folders import each other in one direction
// only. Steps know neither HTTP nor a client.
func TestImportsRunOneWay(t *testing.T) {
	below := func(dir string, rooms ...string) bool {
		return slices.ContainsFunc(rooms, func(room string) bool { return dir == room || strings.HasPrefix(dir, room+"/") })
	}
	for _, file := range harness.GoFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(file))
		if strings.HasSuffix(file, "_test.go") || below(dir, "test") {
			continue
		}
		floor := slices.IndexFunc(floors, func(f struct {
			room string
			may  []string
		}) bool {
			return below(dir, f.room)
		})
		if floor < 0 {
			t.Errorf("%s: its folder has no row in this test: say what it may import", file)
			continue
		}
		for _, path := range importsOf(t, file) {
			ours, isOurs := strings.CutPrefix(path, "usher.dev/usher/")
			if isOurs && !below(ours, append(floors[floor].may, floors[floor].room)...) {
				t.Errorf("%s imports %s: imports run one way, see docs/architecture.md", file, path)
			}
			if below(dir, "mutators", "validators", "colocation/mutators", "colocation/validators", "admit") && below(path, foreign...) ||
				below(dir, "handlers") && below(path, "k8s.io/client-go") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}

// TestSeventeenRooms: the root has at most 17 folders, so that the service is seen there, and one test.
func TestSeventeenRooms(t *testing.T) {
	out, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("no checkout: ", err)
	}
	rooms, files := map[string]bool{}, []string{}
	for file := range strings.Lines(string(out)) {
		if room, _, below := strings.Cut(strings.TrimSpace(file), "/"); below && !strings.HasPrefix(room, ".") {
			rooms[room] = true
		} else if strings.HasSuffix(room, ".go") {
			files = append(files, room)
		}
	}
	if len(rooms) > 17 || len(files) > 2 {
		t.Errorf("%d folders and %v at the root, at most 17 and 2: put it into the room that it belongs to", len(rooms), files)
	}
}

// importsOf returns the import paths of a Go file.
func importsOf(t *testing.T, file string) (paths []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range parsed.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}
