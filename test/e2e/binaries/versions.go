package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// VersionVariable is the environment variable that chooses an older minor version of Kubernetes, such as 1.36: the one of
// go-1.36.mod, or one that go.mod's programs emulate. What the tests import is what go.mod says.
const VersionVariable = "USHER_E2E_KUBERNETES"

// Emulated returns the version that the environment has the programs emulate, or "". They emulate three minor versions before their own.
func Emulated() string {
	if minor := os.Getenv(VersionVariable); slices.Contains([]string{"1.35", "1.34"}, minor) {
		return minor
	}
	return ""
}

// modules are the files that the programs are built from.
type modules struct {
	minor      string // empty for go.mod
	file, sums string
	kubernetes string // v1.37.2
}

// chosen returns the files of the version that the environment chooses.
func chosen(module string) (modules, error) {
	m := modules{minor: strings.TrimPrefix(os.Getenv(VersionVariable), Emulated()), file: filepath.Join(module, "go.mod")}
	if m.minor != "" {
		m.file = filepath.Join(module, "go-"+m.minor+".mod")
	}
	m.sums = strings.TrimSuffix(m.file, ".mod") + ".sum"
	text, err := os.ReadFile(m.file)
	if err != nil {
		return modules{}, fmt.Errorf("%s=%s: %w: only the versions that have such a file can be built, and 1.35 and 1.34 emulated; without the variable it is go.mod's",
			VersionVariable, m.minor, err)
	}
	m.kubernetes = required(string(text), "k8s.io/kubernetes")
	return m, nil
}

// required returns the version that a go.mod requires of a module, or "".
func required(text, module string) string {
	_, after, _ := strings.Cut(text, "\n\t"+module+" ")
	line, _, _ := strings.Cut(after, "\n")
	version, _, _ := strings.Cut(line, " ")
	return version
}

// buildArguments are those of `go build` that choose the version.
func (m modules) buildArguments() []string {
	if m.minor == "" {
		return []string{"-tags=hollow"}
	}
	return []string{"-tags=hollow,kubernetes_" + m.minor, "-modfile=" + m.file}
}
