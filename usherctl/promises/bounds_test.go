package promises

import (
	"fmt"
	"strings"
	"testing"

	"usher.dev/usher/config"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/schema"
)

// TestEveryListIsBounded: every list and every mapping that a policy may have is refused with one element more than it may have.
func TestEveryListIsBounded(t *testing.T) {
	sections, lists := routes.Suites().Schema(), 0
	eachList(policySchema(), func(path string, most int, holding func(any) any, n *schema.Node) {
		lists++
		var full any = make([]any, most+1)
		if n.Items == nil {
			members := map[string]any{}
			for i := range most + 1 {
				members[fmt.Sprint("k", i)] = nil
			}
			full = members
		}
		_, problems := config.Parse(asJSON(holding(full)), sections)
		if want := fmt.Sprintf("%s: Too many: %d: must have at most %d elements", path, most+1, most); len(problems) == 0 || !strings.HasPrefix(problems[0].Error(), want) {
			t.Errorf("got %.300v, want %s", problems, want)
		}
	})
	if lists < 150 {
		t.Errorf("only %d lists", lists)
	}
}

// eachList calls a function for each list and each mapping that a file may have: with its path, how many elements it may have, and how it
// is written into a file with nothing else.
func eachList(root *schema.Node, do func(path string, most int, holding func(any) any, n *schema.Node)) {
	var walk func(n *schema.Node, path string, within []string, holding func(any) any)
	walk = func(n *schema.Node, path string, within []string, holding func(any) any) {
		if name, isRef := strings.CutPrefix(n.Ref, "#/definitions/"); isRef {
			if strings.Contains(strings.Join(within, " "), name) { // a type that contains itself
				return
			}
			n, within = root.Definitions[name], append(within[:len(within):len(within)], name)
		}
		most := n.MaxItems + n.MaxProperties
		if most == 0 {
			most = config.MaxElements
		}
		if n.Items != nil || n.Each != nil || n.Type == "array" {
			do(path, most, holding, n)
		}
		if n.Items != nil {
			walk(n.Items, path+"[0]", within, func(v any) any { return holding([]any{v}) })
		}
		if n.Each != nil {
			walk(n.Each, path+"[a]", within, func(v any) any { return holding(map[string]any{"a": v}) })
			return
		}
		for _, name := range n.Fields {
			walk(n.Properties[name], strings.TrimPrefix(path+"."+name, "."), within, func(v any) any { return holding(map[string]any{name: v}) })
		}
	}
	walk(root, "", nil, func(v any) any { return v })
}
