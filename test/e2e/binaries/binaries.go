// Package binaries builds the Kubernetes programs that the end-to-end tests and the demo run, from the versions that
// this module's go.mod pins, and keeps them in a cache directory outside the tree. `go run ./build` runs it.
//
//	binaries.go  the programs and their paths
//	versions.go  the versions of Kubernetes
//	build.go     builds the missing ones
package binaries

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// FolderVariable is the environment variable that sets another directory for the programs.
const FolderVariable = "USHER_E2E_BIN"

// The programs.
const (
	APIServer         = "kube-apiserver"
	Etcd              = "etcd"
	Kubectl           = "kubectl"
	Scheduler         = "kube-scheduler"
	ControllerManager = "kube-controller-manager"
	Hollow            = "hollow" // a kubelet with a fake container runtime: ../hollow
)

// All are the programs, in the order in which they are built. There is no shorter list for some of the tests: each program
// that one of them starts would have to be in it, and who has run `make cluster` once would not notice that it is not.
var All = []string{APIServer, Etcd, Kubectl, ControllerManager, Hollow, Scheduler}

// packages maps each program to its package, as this module imports it.
var packages = map[string]string{
	APIServer:         "k8s.io/kubernetes/cmd/kube-apiserver",
	Etcd:              "go.etcd.io/etcd/server/v3",
	Kubectl:           "k8s.io/kubernetes/cmd/kubectl",
	Scheduler:         "k8s.io/kubernetes/cmd/kube-scheduler",
	ControllerManager: "k8s.io/kubernetes/cmd/kube-controller-manager",
	Hollow:            "./hollow",
}

// Module returns the directory of this module. It searches upwards from the working directory, because a binary that
// was built with -trimpath does not contain the path of its source.
func Module() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		for _, candidate := range []string{dir, filepath.Join(dir, "test", "e2e")} {
			text, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && bytes.Contains(text, []byte("\nmodule usher.dev/usher/e2e\n")) {
				return candidate, nil
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run this inside usher's repository: no test/e2e/go.mod here or above")
		}
		dir = parent
	}
}

// Folder returns the directory of the programs. Its name depends on everything that affects the programs: the versions
// of all modules and of Go, the platform, and the build flags.
func Folder() (string, error) {
	if dir := os.Getenv(FolderVariable); dir != "" {
		return filepath.Abs(dir)
	}
	module, err := Module()
	if err != nil {
		return "", err
	}
	modules, err := chosen(module)
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(modules.sums)
	if err != nil {
		return "", err
	}
	cache, err := cacheHome()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags, linkFlags("v0.0.0"))
	h.Write(sums)
	return filepath.Join(cache, "usher-e2e", fmt.Sprintf("%s-%x", modules.kubernetes, h.Sum(nil)[:6])), nil
}

func cacheHome() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".cache"), err
}

// Path returns the path of a program, whether it has been built or not.
func Path(name string) (string, error) {
	folder, err := Folder()
	if err != nil || name != Hollow {
		return filepath.Join(folder, name), err
	}
	// The source of this program is in the tree, so no module version changes with it.
	module, err := Module()
	if err != nil {
		return "", err
	}
	source, err := hollowSource(module)
	return filepath.Join(folder, fmt.Sprintf("hollow-%x", sha256Sum(source)[:4])), err
}

func hollowSource(module string) (all []byte, err error) {
	files, err := filepath.Glob(filepath.Join(module, "hollow", "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, text...)
	}
	return all, nil
}

func sha256Sum(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:]
}

// Find returns the path of a built program. It builds nothing, because a test must not take minutes without output.
func Find(name string) (string, error) {
	file, err := Path(name)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("%w: build it first: make e2e, or cd test/e2e && go run ./build", err)
	}
	return file, nil
}
