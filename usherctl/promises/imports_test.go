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
)

// shared are the folders on which the tools stand, with those of usherctl that they may import.
var shared = map[string][]string{"report": nil, "webhookmatch": nil, "requests": {"report"}, "tool": {"report"}}

// sourceOf calls a function with each file of usherctl that is no test, and its folder.
func sourceOf(t *testing.T, do func(file, dir string, parsed *ast.File)) {
	t.Helper()
	for _, file := range goFiles(t) {
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

// TestTypesAreSmall: no type has more than 40 methods.
func TestTypesAreSmall(t *testing.T) {
	methods := map[string]int{}
	sourceOf(t, func(_, dir string, parsed *ast.File) {
		for _, d := range parsed.Decls {
			if method, is := d.(*ast.FuncDecl); is && method.Recv != nil {
				receiver := method.Recv.List[0].Type
				if pointer, is := receiver.(*ast.StarExpr); is {
					receiver = pointer.X
				}
				if name, is := receiver.(*ast.Ident); is {
					methods[dir+"."+name.Name]++
				}
			}
		}
	})
	for name, n := range methods {
		if n > 40 {
			t.Errorf("usherctl/%s has %d methods", name, n)
		}
	}
}
