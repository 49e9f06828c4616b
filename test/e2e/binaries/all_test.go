package binaries

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryProgramIsBuilt: `go run ./build` builds every program that a package of test/e2e names as binaries.X, and
// starts.
func TestEveryProgramIsBuilt(t *testing.T) {
	module, err := Module()
	if err != nil {
		t.Fatal(err)
	}
	declared := constants(t, filepath.Join(module, "binaries", "binaries.go"))
	used := map[string][]string{} // the files that use a program, by the program
	if err := filepath.WalkDir(module, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") {
			return err
		}
		for name := range namesIn(t, file) {
			if program, isOne := declared[name]; isOne {
				used[program] = append(used[program], file)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(used) < 6 {
		t.Fatalf("found the use of only %d programs: %q", len(used), used)
	}
	for program, files := range used {
		if !slices.Contains(All, program) {
			t.Errorf("%s start %s, which is not in binaries.All, so that nothing builds it", files, program)
		}
	}
	for _, program := range All {
		if packages[program] == "" || firstTime[program] == "" {
			t.Errorf("%s: no package, or no time", program)
		}
	}
}

// constants returns the programs that a file declares, by the names of the constants.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	found := map[string]string{}
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && len(spec.Names) == 1 && len(spec.Values) == 1 {
			if value, is := spec.Values[0].(*ast.BasicLit); is {
				found[spec.Names[0].Name] = strings.Trim(value.Value, `"`)
			}
		}
		return true
	})
	delete(found, "FolderVariable")
	return found
}

// namesIn returns the X of each binaries.X in a file.
func namesIn(t *testing.T, file string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		if selector, is := n.(*ast.SelectorExpr); is {
			if of, is := selector.X.(*ast.Ident); is && of.Name == "binaries" {
				found[selector.Sel.Name] = true
			}
		}
		return true
	})
	return found
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// withoutPrograms are the targets whose tests start no program of Kubernetes.
var withoutPrograms = []string{"alerts", "lint"}

// TestTargetsBuildFirst: each target of the Makefile that runs something in test/e2e builds the programs before.
func TestTargetsBuildFirst(t *testing.T) {
	text := read(t, filepath.Join(repository(t), "Makefile"))
	const build = "cd test/e2e && go run ./build &&"
	runs := map[string][]string{} // the lines that run something in test/e2e, by the target
	target := ""
	for line := range strings.Lines(text) {
		if m := regexp.MustCompile(`^([a-z0-9-]+):`).FindStringSubmatch(line); m != nil {
			target = m[1]
		}
		if strings.HasPrefix(line, "\t") && strings.Contains(line, "test/e2e") {
			runs[target] = append(runs[target], strings.TrimSpace(line))
		}
	}
	for _, target := range slices.Sorted(maps.Keys(runs)) {
		if lines := runs[target]; !slices.Contains(withoutPrograms, target) && !strings.HasPrefix(lines[0], build) {
			t.Errorf("make %s: %s; want %s first", target, lines[0], build)
		}
	}
	for _, target := range []string{"e2e", "cluster", "walk", "chaos", "soak", "load"} {
		if runs[target] == nil {
			t.Errorf("make %s runs nothing in test/e2e, or this test does not see it", target)
		}
	}
}
