package binaries

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOneKubernetesVersion checks that each go.mod requires the staging modules at the version of k8s.io/kubernetes, and that
// a file for an older version has its version in its name.
func TestOneKubernetesVersion(t *testing.T) {
	module, err := Module()
	if err != nil {
		t.Fatal(err)
	}
	older, err := filepath.Glob(filepath.Join(module, "go-*.mod"))
	if err != nil || len(older) == 0 {
		t.Fatal(older, err)
	}
	oneVersion(t, filepath.Join(module, "go.mod"))
	for _, file := range older {
		version := oneVersion(t, file)
		minor := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "go-"), ".mod")
		if !strings.HasPrefix(version, "v"+minor+".") {
			t.Errorf("%s requires Kubernetes %s", file, version)
		}
	}
}

// oneVersion returns the version of Kubernetes in a go.mod.
func oneVersion(t *testing.T, file string) string {
	t.Helper()
	text := read(t, file)
	version := required(text, "k8s.io/kubernetes")
	staged := regexp.MustCompile(`(?m)^\t(k8s\.io/[a-z-]+) (v0\.\d+\.\d+)( |$)`).FindAllStringSubmatch(text, -1)
	for _, module := range staged {
		if module[2] != "v0."+strings.TrimPrefix(version, "v1.") {
			t.Errorf("%s: %s is %s, but k8s.io/kubernetes is %s", file, module[1], module[2], version)
		}
	}
	if version == "" || len(staged) < 20 {
		t.Fatalf("%s: found version %q and %d staging modules", file, version, len(staged))
	}
	return version
}

// TestChosenVersion: the variable chooses the file and the folder, or has go.mod's programs emulate a version, and an unknown version is an error that names it.
func TestChosenVersion(t *testing.T) {
	module, err := Module()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(FolderVariable, "")
	for minor, beginning := range map[string]string{"": "v1.37.", "1.36": "v1.36.", "1.34": "v1.37."} {
		t.Setenv(VersionVariable, minor)
		folder, err := Folder()
		if err != nil || !strings.HasPrefix(filepath.Base(folder), beginning) {
			t.Errorf("%q: %s %v", minor, folder, err)
		}
		if m, err := chosen(module); err != nil || (minor != "1.36") != (len(m.buildArguments()) == 1) || (minor == "1.34") != (Emulated() == minor && minor != "") {
			t.Errorf("%q: %q %v", minor, m.buildArguments(), err)
		}
	}
	t.Setenv(VersionVariable, "1.33")
	if _, err := Folder(); err == nil || !strings.Contains(err.Error(), "go-1.33.mod") {
		t.Error(err)
	}
}
