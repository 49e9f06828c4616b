package binaries

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linking are the modules that link parts of Kubernetes, by their folders, with the arguments of `go list` for all their packages.
var linking = map[string][]string{
	".":        {"./..."},
	"usherctl": {"./..."},
	"test/e2e": {"-tags=hollow", "./...", "tool"},
}

// TestOneVersionOfEachModule: the modules of the repository that link parts of Kubernetes select one version of each module that
// they share, so that Kubernetes is compiled once. The test is here because this module has downloaded all of them anyway.
func TestOneVersionOfEachModule(t *testing.T) {
	root := repository(t)
	selected := map[string]map[string][]string{} // the folders, by the module and its version
	shared := 0
	for folder, args := range linking {
		for module, version := range modulesOf(t, filepath.Join(root, folder), args) {
			if selected[module] == nil {
				selected[module] = map[string][]string{}
			}
			selected[module][version] = append(selected[module][version], folder)
			if len(selected[module][version]) == len(linking) {
				shared++
			}
		}
	}
	for module, versions := range selected {
		if len(versions) > 1 {
			t.Errorf("%s has several versions: %v; raise it in each go.mod to the highest", module, versions)
		}
	}
	if shared < 10 {
		t.Errorf("all share only %d modules", shared)
	}
}

// modulesOf returns the versions of the modules whose packages a module needs, with its tests. Its own modules have none.
func modulesOf(t *testing.T, dir string, args []string) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"list", "-test", "-deps",
		"-f", "{{with .Module}}{{if not .Replace}}{{.Path}} {{.Version}}{{end}}{{end}}"}, args)...)
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %s: %v", dir, list, err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if module, version, _ := strings.Cut(strings.TrimSpace(line), " "); version != "" {
			versions[module] = version
		}
	}
	return versions
}

func repository(t *testing.T) string {
	t.Helper()
	module, err := Module()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(module, "..", "..")
}
