package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/admit/document"
)

const aPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns, labels: {a: b}}\n"

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, file, content string
		want                string // the objects, as Kind at place
	}{
		{"one", "f.yaml", aPod, "Pod at f.yaml, document 1 (line 1)"},
		{"empty", "f.yaml", "", ""},
		{"comments only", "f.yaml", "# a\n---\n# b\n---\n\n", ""},
		{"two", "f.yml", "# first\n" + aPod + "--- # second\n" + aPod, "Pod at f.yml, document 1 (line 1); Pod at f.yml, document 2 (line 5)"},
		{"end marker", "f.yaml", aPod + "...\n---\n" + aPod + "...\n", "Pod at f.yaml, document 1 (line 1); Pod at f.yaml, document 2 (line 5)"},
		{"windows", "f.yaml", "\uFEFF" + strings.ReplaceAll(aPod+"---\n"+aPod, "\n", "\r\n"), "Pod at f.yaml, document 1 (line 1); Pod at f.yaml, document 2 (line 4)"},
		{"dashes in text", "f.yaml", aPod + "x: |\n  ---\n  b\n", "Pod at f.yaml, document 1 (line 1)"},
		{"flow after mark", "f.yaml", "--- {apiVersion: v1, kind: Pod}", "Pod at f.yaml, document 1 (line 1)"},
		{"null", "f.yaml", "---\nnull\n---\n" + aPod, "Pod at f.yaml, document 2 (line 3)"},
		{"JSON in YAML", "f.yaml", "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\"}", "Pod at f.yaml, document 1 (line 1)"},
		{"JSON escapes", "f.yaml", `{"apiVersion":"v1","kind":"Pod","x":"\ud83d\ude00"}`, "Pod at f.yaml, document 1 (line 1)"},
		{"JSON with a mark", "f.json", "\uFEFF" + `{"apiVersion":"v1","kind":"Pod"}`, "Pod at f.json, document 1 (line 1)"},
		{"JSON", "f.json", `{"apiVersion":"v1","kind":"Pod"}`, "Pod at f.json, document 1 (line 1)"},
		{"JSON one by one", "f.json", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}\n\n {\"apiVersion\":\"v1\",\"kind\":\"Node\"}\n", "Pod at f.json, document 1 (line 1); Node at f.json, document 2 (line 3)"},
		{"list", "f.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n- {apiVersion: v1, kind: PodList, items: [{metadata: {}}]}\n", "Pod at f.yaml, document 1 (line 1), item 1; Pod at f.yaml, document 1 (line 1), item 2, item 1"},
		{"empty list", "f.yaml", "apiVersion: v1\nkind: List\nitems: []\n", ""},
		{"a kind with List", "f.yaml", "apiVersion: x/v1\nkind: AllowList\nspec: {}\n", "AllowList at f.yaml, document 1 (line 1)"},
		{"JSON one by one in YAML", "f", "# first\n---\n{\"apiVersion\":\"v1\",\n\"kind\":\"Pod\"}\n{\"apiVersion\":\"v1\",\"kind\":\"Node\"}\n---\n" + aPod,
			"Pod at f, document 1 (line 3); Node at f, document 2 (line 5); Pod at f, document 3 (line 6)"},
		{"JSON with a comment", "f", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"} # one\n", "Pod at f, document 1 (line 1)"},
		{"flow with quoted keys", "f", "{\"apiVersion\": v1, \"kind\": Pod}\n", "Pod at f, document 1 (line 1)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, problems := Read(c.file, []byte(c.content))
			var got []string
			for _, m := range found {
				got = append(got, m.Kind+" at "+m.Place.String())
			}
			if strings.Join(got, "; ") != c.want || len(problems) > 0 {
				t.Errorf("got %q, problems %v, want %q", strings.Join(got, "; "), problems, c.want)
			}
		})
	}
}

// TestItemsSayTheirType: the items of a PodList need not have a type, but readers of the JSON need it.
func TestItemsSayTheirType(t *testing.T) {
	found, problems := Read("f", []byte("apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}}, {apiVersion: x/v1, kind: Mine}]"))
	if len(found) != 2 || len(problems) > 0 {
		t.Fatal(found, problems)
	}
	if text := string(found[0].JSON); !strings.Contains(text, `"kind":"Pod"`) || !strings.Contains(text, `"apiVersion":"v1"`) {
		t.Error(text)
	}
	if text := string(found[1].JSON); text != `{"apiVersion":"x/v1","kind":"Mine"}` || found[1].Kind != "Mine" {
		t.Error(text)
	}
}

func TestPlace(t *testing.T) {
	p := Place{File: "f", Document: 2, Line: 9}
	first, second := p.item(1), p.item(2)
	inner, other := first.item(3), first.item(4)
	for _, c := range []struct{ got, want string }{
		{p.String(), "f, document 2 (line 9)"}, {second.String(), "f, document 2 (line 9), item 2"},
		{inner.String(), "f, document 2 (line 9), item 1, item 3"}, {other.String(), "f, document 2 (line 9), item 1, item 4"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestProblems: each problem has its place, and none hides another.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          []string // what each problem contains
	}{
		{"YAML", aPod + "---\n\nkind: x\n  y: z\n", []string{"f, document 2 (line 4): yaml: line 7"}},
		{"JSON that ends early", "{\"apiVersion\": \"v1\",\n\"kind\": \n", []string{"f, document 1 (line 1): "}},
		{"the second JSON value", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}\n{\"kind\"", []string{"f, document 2 (line 2): "}},
		{"all of them", "a\n---\nb\n---\n{\"kind\":\"a\",\"kind\":\"a\"}", []string{"(line 1): not a", "(line 2): not a", "(line 4): "}},
		{"no type", "apiVersion: v1\nkind: List\nitems: [{}, []]", []string{"item 1: not a Kubernetes object: apiVersion", "item 2: not a Kubernetes object: not a"}},
		{"endless lists", strings.Repeat("{apiVersion: v1, kind: List, items: [", 20) + strings.Repeat("]}", 20), []string{"more than 10 lists within each other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := Read("f", []byte(c.content))
			if len(problems) != len(c.want) {
				t.Fatalf("%d problems: %v", len(problems), problems)
			}
			for i, want := range c.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("%q is not in: %v", want, problems[i])
				}
			}
		})
	}
}

// FuzzRead: no content causes a panic, an object is JSON with a type, and a problem has a place.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{aPod, aPod + "---\n" + aPod, "--- {a: b}", "...\n", "kind: PodList\napiVersion: v1\nitems: [{}]", `{"a":1}{`, "---\n {\"a\":", "\uFEFF%YAML 1.1\n---\na: &a [*a]", "? a\n: b"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, content string, json bool) {
		file := map[bool]string{false: "f.yaml", true: "f.json"}[json]
		found, problems := Read(file, []byte(content))
		for _, o := range found {
			d, err := document.Parse(o.JSON)
			if err != nil || d.Root().Get("kind").Text() != o.Kind || o.Kind == "" || o.APIVersion == "" {
				t.Errorf("%s: %+v, %v: %s", o.Place, o.TypeMeta, err, o.JSON)
			}
		}
		for _, err := range problems {
			if !strings.HasPrefix(err.Error(), file+", document ") {
				t.Errorf("no place: %v", err)
			}
		}
	})
}

// TestReadDir: the files of a directory in the order of their names, and all problems at once.
func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": "{apiVersion: v1, kind: B}", "a.json": `{"apiVersion":"v1","kind":"A"}`, ".hidden.yaml": "[", "notes.txt": "[", "sub.yaml/c.yaml": "[",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := ReadDir(dir)
	if err != nil || len(objects) != 2 || objects[0].Kind != "A" || objects[1].Kind != "B" {
		t.Errorf("%v, %v", objects, err)
	}
	for _, name := range []string{"c.yaml", "d.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("kind: ["), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadDir(dir); err == nil || !strings.Contains(err.Error(), "c.yaml") || !strings.Contains(err.Error(), "d.yaml") {
		t.Errorf("not all problems are reported: %v", err)
	}
}
