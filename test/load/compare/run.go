package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packages have the benchmarks: of every route, and of the step with the most work.
var packages = []string{"test/process", "colocation/mutators"}

// build compiles the benchmarks of the source in tree, and returns the files.
func build(ctx context.Context, tree, into string) (binaries []string, err error) {
	for _, name := range packages {
		binary := filepath.Join(into, strings.ReplaceAll(name, "/", "-")+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+name)
		cmd.Dir = tree
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the benchmarks of %s in %s: %w\n%s", name, tree, err, out)
		}
		binaries = append(binaries, binary)
	}
	return binaries, nil
}

// side is one of the two sources that are compared, or the only one.
type side struct {
	tree     string // the root of the source
	binaries []string
	output   bytes.Buffer // of all rounds
}

// newSide compiles the benchmarks of a source into a folder of dir.
func newSide(ctx context.Context, tree, dir, name string) (*side, error) {
	into, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return nil, err
	}
	binaries, err := build(ctx, tree, into)
	return &side{tree: tree, binaries: binaries}, err
}

// round runs every benchmark once.
func (s *side) round(ctx context.Context, pattern string) error {
	for i, binary := range s.binaries {
		cmd := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", pattern, "-test.benchmem", "-test.benchtime", "100ms")
		cmd.Dir = filepath.Join(s.tree, packages[i]) // as go test does
		var failed bytes.Buffer
		cmd.Stdout, cmd.Stderr = &s.output, &failed
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("benchmarks of %s in %s: %w\n%s%s", packages[i], s.tree, err, &failed, tail(s.output.Bytes()))
		}
	}
	return nil
}

func tail(text []byte) []byte { return text[max(0, len(text)-1000):] }

// rounds runs the sides by turns, so that noise on the machine affects all of them equally.
func rounds(ctx context.Context, count int, pattern string, progress io.Writer, sides ...*side) error {
	for i := range count {
		_, _ = fmt.Fprintf(progress, "round %d of %d\n", i+1, count)
		for k := range sides {
			if i%2 == 1 { // the other first
				k = len(sides) - 1 - k
			}
			if err := sides[k].round(ctx, pattern); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkout makes a worktree of a revision in dir, and returns what removes it.
func checkout(ctx context.Context, revision, dir string) (tree string, remove func(), err error) {
	tree, err = filepath.Abs(filepath.Join(dir, "base"))
	if err != nil {
		return "", nil, err
	}
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--force", "--detach", tree, revision).CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("git worktree add %s: %w\n%s", revision, err, out)
	}
	return tree, func() { _ = exec.Command("git", "worktree", "remove", "--force", tree).Run() }, nil
}
