package review

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/tool"
)

// TestFlagsInMessages: each flag that a text of usherctl review names is one of its flags.
func TestFlagsInMessages(t *testing.T) {
	flags := Command(tool.Env{Suites: suite.List{colocation.Suite()}}, nil).Flags()
	named := regexp.MustCompile(`(^|[^-\w])--([a-z][a-z-]*)`)
	seen := 0
	for _, pattern := range []string{"*.go", "../requests/*.go", "../report/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			if matched, _ := filepath.Match("*_test.go", filepath.Base(file)); matched {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if call, is := n.(*ast.CallExpr); is && len(call.Args) == 2 { // c.setting("old", "") is --old
					if to, is := call.Fun.(*ast.SelectorExpr); is && to.Sel.Name == "setting" {
						name := *call.Args[0].(*ast.BasicLit)
						name.Value = strconv.Quote("--" + strings.Trim(name.Value, `"`))
						text, ok = &name, true
					}
				}
				if !ok || text.Kind != token.STRING {
					return true
				}
				value, _ := strconv.Unquote(text.Value)
				for _, m := range named.FindAllStringSubmatch(value, -1) {
					if seen++; flags.Lookup(m[2]) == nil && m[2] != "help" && m[2] != "cacert" { // of curl
						t.Errorf("%s: there is no flag --%s: %q", set.Position(text.Pos()), m[2], value)
					}
				}
				return true
			})
		}
	}
	if seen < 20 {
		t.Errorf("only %d flags are named", seen)
	}
}
