package binaries

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// TestOneSetOfFlags: everything is compiled with -trimpath and without cgo, as the programs of Kubernetes are, so that no package is
// compiled twice: the Makefile exports both, CI runs only targets of it, and no code sets others.
func TestOneSetOfFlags(t *testing.T) {
	root := repository(t)
	makefile, ci := read(t, filepath.Join(root, "Makefile")), read(t, filepath.Join(root, ".ci", "run"))
	for _, line := range []string{"export GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS)) " + buildFlags, "export CGO_ENABLED := 0"} {
		if !strings.Contains(makefile, "\n"+line+"\n") {
			t.Errorf("the Makefile does not have the line %q", line)
		}
	}
	if direct := regexp.MustCompile(`(?m)^[^#\n]*\bgo (build|install|list|run|test|tool|vet)\b.*$`).FindString(ci); direct != "" {
		t.Errorf(".ci/run has %q, which is no target of the Makefile", direct)
	}
	found := 0
	if err := filepath.WalkDir(root, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" {
			return err
		}
		for _, set := range regexp.MustCompile(`"(CGO_ENABLED|GOFLAGS)=([^"]+)"`).FindAllStringSubmatch(read(t, file), -1) {
			if found++; set[2] != "0" && !strings.Contains(set[2], buildFlags) {
				t.Errorf("%s sets %s; everything is compiled with %s and CGO_ENABLED=0", file, set[0], buildFlags)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if found < 6 {
		t.Errorf("only %d places set flags", found)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
