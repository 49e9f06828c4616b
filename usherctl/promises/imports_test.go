package promises

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// shared are the folders on which the tools stand, with those of usherctl that they may import.
var shared = map[string][]string{"report": nil, "discovery": nil, "webhookmatch": {"discovery"}, "requests": {"report"}, "tool": {"report"}}

// sourceOf calls a function with each file of usherctl that is no test, and its folder.
func sourceOf(t *testing.T, do func(file, dir string, parsed *ast.File)) {
	t.Helper()
	for _, file := range harness.GoFiles(t, "usherctl") {
		dir, ours := strings.CutPrefix(filepath.ToSlash(filepath.Dir(file)), "usherctl/")
		if !ours || strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		do(file, dir, parsed)
	}
}

// TestToolsImportOneWay: what tools share knows no tool, and no tool knows the root command.
func TestToolsImportOneWay(t *testing.T) {
	sourceOf(t, func(file, dir string, parsed *ast.File) {
		may, below := shared[dir]
		for _, i := range parsed.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			room, ours := strings.CutPrefix(path, "usher.dev/usher/usherctl/")
			if ours && (room == "command" || below && !slices.Contains(may, room)) {
				t.Errorf("%s imports usherctl/%s", file, room)
			}
		}
	})
}
