package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// platform is an operating system and an architecture, as in GOOS and GOARCH.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var (
	imagePlatforms   = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	archivePlatforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
)

// parsePlatforms reads a list such as linux/amd64,linux/arm64; an empty one stands for all that are possible.
func parsePlatforms(list string, possible []platform) (all []platform, err error) {
	if list == "" {
		return possible, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(possible, func(p platform) bool { return p.String() == text })
		if i < 0 {
			return nil, fmt.Errorf("--platforms %s: must be some of %v", text, possible)
		}
		all = append(all, possible[i])
	}
	return all, nil
}

// program is one of the two programs.
type program struct {
	name, folder string   // of its module
	about        string   // in its image
	args, ports  []string // of its image
}

var programs = []program{
	{"usher", ".", "admission webhooks for Kubernetes", []string{"serve"}, []string{"9443/tcp", "8081/tcp"}},
	{"usherctl", "usherctl", "helps with admission webhooks for Kubernetes", nil, nil},
}

// build builds a static binary of the program in a folder. It depends on nothing of this machine but the version of Go: not on paths, the state of
// the checkout, or the environment.
func (s source) build(ctx context.Context, p platform, folder, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+s.version+" -X usher.dev/usher/internal/cli.commit="+s.commit, "-o", file, ".")
	cmd.Dir = filepath.Join(s.root, folder)
	cmd.Env, err = environment(ctx)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s: %w\n%s", p, err, out)
	}
	return nil
}

// environment returns the environment without what would change a build: of Go's settings, in variables or by `go env -w`, only where modules come
// from, and where they and packages are kept.
func environment(ctx context.Context) ([]string, error) {
	kept := []string{"GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOAUTH",
		"GOPATH", "GOMODCACHE", "GOCACHE", "GOTOOLCHAIN"}
	values, err := exec.CommandContext(ctx, "go", append([]string{"env"}, kept...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	all := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GO") })
	for i, value := range strings.Split(strings.TrimSuffix(string(values), "\n"), "\n") {
		all = append(all, kept[i]+"="+value)
	}
	return append(all, "GOENV=off"), nil
}
