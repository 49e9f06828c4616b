package manifest

import (
	"fmt"
	"strings"
	"testing"

	"usher.dev/usher/admit/document"
)

// TestLongLists: of a long list each item is a document of its own, wherever its limits are; the rest is read as it was.
func TestLongLists(t *testing.T) {
	padding := strings.Repeat("x", 2000)
	values := strings.Repeat("1,", 1000) + "1"
	inJSON := func(n int) string {
		return strings.Repeat(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"x":[%s]},`, values), n-1) + `{"metadata":{"name":"last"}}`
	}
	inYAML := func(indent string, n int) string {
		item := "- apiVersion: v1\n  kind: Pod\n  text: |\n    - apiVersion\n\n    " + padding + "\n  list:\n  - [1, 2]\n"
		return strings.ReplaceAll(indent+strings.TrimSuffix(strings.Repeat(item, n), "\n"), "\n", "\n"+indent) + "\n"
	}
	for _, c := range []struct {
		name, file, content string
		objects             int
		last, problem       string
	}{
		{"JSON, the kind last", "f.json", `{"apiVersion":"v1","items":[` + inJSON(600) + `],"kind":"PodList","metadata":{}}`, 600, "Pod at f.json, document 1 (line 1), item 600", ""},
		{"JSON in YAML", "f", "# a\n" + `{"kind":"PodList","apiVersion":"v1","items":[` + inJSON(600) + "]}\n", 600, "Pod at f, document 1 (line 1), item 600", ""},
		{"an item without a type", "f.json", `{"apiVersion":"v1","items":[` + inJSON(600) + `],"kind":"List"}`, 599, "Pod at f.json, document 1 (line 1), item 599", "item 600: not a Kubernetes object: apiVersion or kind is missing"},
		{"YAML", "f.yaml", "apiVersion: v1\nitems:\n" + inYAML("", 520) + "kind: List\nmetadata:\n  resourceVersion: \"\"\n", 520, "Pod at f.yaml, document 1 (line 1), item 520", ""},
		{"YAML, indented", "f.yaml", "kind: List\napiVersion: v1\nitems:\n" + inYAML("  ", 520), 520, "Pod at f.yaml, document 1 (line 1), item 520", ""},
		{"YAML with an anchor", "f.yaml", "apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: v1, kind: Pod, x: " + strings.Repeat(padding, 600) + "}\n- *a\n", 2, "Pod at f.yaml, document 1 (line 1), item 2", ""},
		{"YAML with a text at the margin", "f.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, y: \"a\n- b\", x: " + strings.Repeat(padding, 600) + "}\n", 1, "Pod at f.yaml, document 1 (line 1), item 1", ""},
		{"another kind with items", "f.json", `{"apiVersion":"v1","kind":"Menu","items":["` + strings.Repeat(padding, 600) + `"]}`, 1, "Menu at f.json, document 1 (line 1)", ""},
		{"a wrong line", "f.yaml", "apiVersion: v1\nkind: List\nitems:\n" + inYAML("", 520) + "- a: b: c\n", 0, "", "yaml: line 4164: mapping values"},
		{"a large document", "f.json", `{"x":"` + strings.Repeat(padding, MaxBytes/2000+1) + `"}`, 0, "", "larger than 64 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, problems := Read(c.file, []byte(c.content))
			if len(found) != c.objects || len(problems) > 0 != (c.problem != "") {
				t.Fatalf("%d objects, %v", len(found), problems)
			}
			if c.problem != "" && !strings.Contains(problems[0].Error(), c.problem) {
				t.Errorf("%v, want %s", problems[0], c.problem)
			}
			if n := len(found) - 1; n >= 0 && found[n].Kind+" at "+found[n].Place.String() != c.last {
				t.Errorf("%s at %s, want %s", found[n].Kind, found[n].Place, c.last)
			}
			for _, o := range found {
				if _, err := document.Parse(o.JSON); err != nil || strings.Contains(string(o.JSON), `"text"`) && !strings.Contains(string(o.JSON), `"list":[[1,2]]`) {
					t.Fatalf("%v: %.100s", err, o.JSON)
				}
			}
		})
	}
}
