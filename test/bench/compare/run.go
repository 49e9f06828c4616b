package compare

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

// packages have the benchmarks: of every route, and of the step with the most work. Each has the folders in which it lies, or lay in
// earlier revisions, the present one first.
var packages = [][]string{{"test/process"}, {"colocation/mutators"}}

// folderIn returns the folder of a package in a tree.
func folderIn(tree string, folders []string) (string, error) {
	for _, folder := range folders {
		if files, _ := filepath.Glob(filepath.Join(tree, folder, "*_test.go")); len(files) > 0 {
			return folder, nil
		}
	}
	return "", fmt.Errorf("%s has no tests in %s: if the benchmarks lie elsewhere there, add the folder to packages in test/bench/compare/run.go",
		tree, strings.Join(folders, " or "))
}

// side is one of the two sources that are compared, or the only one.
type side struct {
	benchmarks []benchmark
	output     bytes.Buffer // of all rounds
}

// benchmark is the test program of a package.
type benchmark struct{ folder, binary string }

// newSide compiles the benchmarks of the source in tree into a folder of dir.
func newSide(ctx context.Context, tree, dir, name string) (*side, error) {
	into, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return nil, err
	}
	s := &side{}
	for _, folders := range packages {
		folder, err := folderIn(tree, folders)
		if err != nil {
			return nil, err
		}
		binary := filepath.Join(into, strings.ReplaceAll(folders[0], "/", "-")+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+folder)
		cmd.Dir = tree
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the benchmarks of %s in %s: %w\n%s", folder, tree, err, out)
		}
		s.benchmarks = append(s.benchmarks, benchmark{filepath.Join(tree, folder), binary})
	}
	return s, nil
}

// round runs every benchmark once.
func (s *side) round(ctx context.Context, pattern string) error {
	for _, b := range s.benchmarks {
		cmd := exec.CommandContext(ctx, b.binary, "-test.run", "^$", "-test.bench", pattern, "-test.benchmem", "-test.benchtime", "100ms")
		cmd.Dir = b.folder // as go test does
		var failed bytes.Buffer
		cmd.Stdout, cmd.Stderr = &s.output, &failed
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("benchmarks of %s: %w\n%s%s", b.folder, err, &failed, tail(s.output.Bytes()))
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
