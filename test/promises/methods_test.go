package promises

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// The most methods that a type may have: what has more is several things. The ledger of quotas, whose operations share a lock, may have more.
const mostMethods, mostMethodsOfLedger = 40, 60

// manyMethods are the views of objects, which have a method for each field that a step reads or writes.
var manyMethods = map[string]bool{"admit.Pod": true, "admit.Meta": true, "admit/document.Value": true}

// TestTypesHaveFewMethods: in both modules no type has more methods of its own than one can know.
func TestTypesHaveFewMethods(t *testing.T) {
	of, tools := map[string]int{}, false
	for _, file := range harness.GoFiles(t, "usherctl") {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "test/") {
			countMethods(t, file, of)
		}
	}
	for name, n := range of {
		tools = tools || strings.HasPrefix(name, "usherctl/")
		most := mostMethods
		if name == "colocation/ledger.Ledger" {
			most = mostMethodsOfLedger
		}
		if n > most && !manyMethods[name] {
			t.Errorf("%s has %d methods, more than %d: give a part of them a type of its own, or make them functions", name, n, most)
		}
	}
	if of["admit.Pod"] < 20 || !tools {
		t.Fatalf("not all types were found: %d", len(of))
	}
}

// countMethods adds the methods that a file declares, by the folders and names of their types.
func countMethods(t *testing.T, file string, of map[string]int) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		function, is := d.(*ast.FuncDecl)
		if !is || function.Recv == nil {
			continue
		}
		receiver := function.Recv.List[0].Type
		if pointer, is := receiver.(*ast.StarExpr); is {
			receiver = pointer.X
		}
		if generic, is := receiver.(*ast.IndexExpr); is {
			receiver = generic.X
		}
		if name, is := receiver.(*ast.Ident); is {
			of[path.Dir(filepath.ToSlash(file))+"."+name.Name]++
		}
	}
}
