package policytest

import (
	"strings"
	"testing"
)

const good = "manifest: pod.yaml\nexpect: {verdict: allowed}\n"

// TestVersion: cases and defaults may have their version.
func TestVersion(t *testing.T) {
	const version = "apiVersion: usher.dev/v1\nkind: Case\n"
	found, problems := Read("a.case.yaml", []byte(version+"defaults: {config: a.yaml}\n---\n"+version+good))
	if len(problems) > 0 || len(found) != 1 || found[0].Err != nil || found[0].Config != "a.yaml" {
		t.Errorf("%v, %+v", problems, found)
	}
}

// TestProblems: what is wrong with a case is said, and what was probably meant.
func TestProblems(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a misspelt key", good + "expects: {}", "expects is an unknown key; did you mean expect?"},
		{"a misspelt key of expect", "manifest: a\nexpect: {verdict: denied, warning: []}", "expect.warning is an unknown key; did you mean warnings?"},
		{"a misspelt key of request", good + "request: {operatoin: UPDATE}", "request.operatoin is an unknown key; did you mean operation?"},
		{"an unknown key", good + "xyz: 1", "xyz is an unknown key; the known keys are answers, at, cluster"},
		{"no verdict", "manifest: a\nexpect: {code: 403}", "expect.verdict is missing"},
		{"no expect", "manifest: a", "expect.verdict is missing"},
		{"a verdict that is none", "manifest: a\nexpect: {verdict: fail}", "expect.verdict: must be one of allowed, denied, invalid, not judged, error, skipped"},
		{"two expectations of one kind", "manifest: a\nexpect: {verdict: denied}\nexpect: {verdict: allowed}", `key "expect" already set in map`},
		{"no object", "expect: {verdict: denied}", "manifest is missing"},
		{"two objects", good + "review: b", "leave one out"},
		{"a review with a request", "review: a\nrequest: {user: x}\nexpect: {verdict: denied}", "leave out request and old"},
		{"old without UPDATE", good + "old: b", "add request: {operation: UPDATE}"},
		{"an operation that is none", good + "request: {operation: PATCH}", "request.operation must be CREATE"},
		{"a path that is none", good + "path: mutate-pods", "path must begin with /"},
		{"an empty reason", good + "once: ''", "once is empty"},
		{"a word that YAML reads as false", good + "name: n", "name must be a text, in quotes: YAML reads y, n,"},
		{"once without a reason", good + "once: true", "once must be a text"},
		{"an empty key", good + "config:", "config is empty: leave it out"},
		{"a wrong type", good + "gates: [A]", "gates must be a mapping of names to true or false"},
		{"a number for a file", "manifest: 1\nexpect: {verdict: denied}", "manifest must be the name of a file, or an object"},
		{"a moment that is none", good + "at: tomorrow", "at must be a moment"},
		{"a code as text", "manifest: a\nexpect: {verdict: denied, code: \"403\"}", "expect.code: must be a number"},
		{"contains for a code", "manifest: a\nexpect: {verdict: denied, code: {contains: 4}}", "is compared whole"},
		{"contains nothing", "manifest: a\nexpect: {verdict: denied, message: {contains: \"\"}}", "contains nothing"},
		{"contains an empty list", "manifest: a\nexpect: {verdict: denied, warnings: {contains: []}}", "contains nothing"},
		{"contains an empty object", "manifest: a\nexpect: {verdict: allowed, after: {contains: {}}}", "contains nothing"},
		{"contains an empty mapping within", "manifest: a\nexpect: {verdict: allowed, after: {contains: {metadata: {name: a}, spec: {}}}}", "contains.spec is empty: it would always be met"},
		{"contains an empty list within", "manifest: a\nexpect: {verdict: allowed, after: {contains: {spec: {volumes: [{name: a, emptyDir: []}]}}}}", "contains.spec.volumes.0.emptyDir is empty"},
		{"contains beside another key", "manifest: a\nexpect: {verdict: denied, message: {contains: a, exactly: b}}", "expect.message: must be a text"},
		{"an outcome that is none", "manifest: a\nexpect: {verdict: denied, steps: {rules: failed}}", "rules must be one of changed"},
		{"a list that is no case", "[1]", "a case must be a mapping of"},
		{"defaults beside a case", "defaults: {config: a}\n" + good, "defaults are a document of their own"},
		{"defaults of what is no default", "defaults: {expect: {}}\n", "defaults.expect is an unknown key"},
		{"another version", "apiVersion: usher.dev/v2\n" + good, `apiVersion: Invalid value: "usher.dev/v2": must be usher.dev/v1`},
		{"another kind", "kind: Policy\n" + good, `kind: Invalid value: "Policy": must be Case`},
		{"defaults of another version", "apiVersion: v1\ndefaults: {config: a}\n", "must be usher.dev/v1"},
		{"no YAML", "a: b: c", "mapping values are not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, problems := Read("dir/x.case.yaml", []byte(c.text))
			var texts []string
			for _, err := range problems {
				texts = append(texts, err.Error())
			}
			for _, f := range found {
				if f.Err != nil {
					texts = append(texts, f.Err.Error())
				}
			}
			if got := strings.Join(texts, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestRead: cases have names, lines, and the defaults that come before them.
func TestRead(t *testing.T) {
	found, problems := Read("dir/team.case.yaml", []byte("# first\n"+good+"---\nname: named\n"+good+"---\ndefaults: {config: p.yaml, request: {user: ann}}\n---\n"+
		good+"---\n"+good+"config: own.yaml\nrequest: {namespace: shop}\n---\nreview: r.json\nexpect:\n  verdict: denied\n  steps: {rules: off}\n"))
	if len(problems) > 0 || len(found) != 5 {
		t.Fatal(found, problems)
	}
	for i, want := range []struct {
		name, config, user, namespace string
		line                          int
	}{
		{"dir/team", "", "", "", 3}, {"dir/named", "", "", "", 7}, {"dir/team#4", "p.yaml", "ann", "", 12}, {"dir/team#5", "own.yaml", "", "shop", 15},
		{"dir/team#6", "p.yaml", "", "", 21},
	} {
		c := found[i]
		got := c.expect["verdict"].line
		if c.Err != nil || c.Name != want.name || c.Config != want.config || c.request.User != want.user || c.request.Namespace != want.namespace || got != want.line {
			t.Errorf("case %d: %v, %+v, verdict in line %d, want %+v", i+1, c.Err, c, got, want)
		}
	}
	if off := found[4].expect["steps"].value.(map[string]any)["rules"]; off != "off" {
		t.Errorf("YAML reads the word off as false: %v", off)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		file     string
		document int
		own      string
		want     string
	}{
		{"a/case.yaml", 1, "", "a"}, {"a/case.yaml", 2, "", "a#2"}, {"a/b/team.case.yml", 1, "", "a/b/team"}, {"a/case.yaml", 3, "pods have a team", "a/pods have a team"},
		{"case.yaml", 1, "", "case"}, {"case.yaml", 1, "pods have a team", "pods have a team"}, {"../a/case.yaml", 2, "", "../a#2"},
	} {
		if got := nameOf(c.file, c.document, c.own); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// FuzzRead: no content causes a panic; a case has a name, and without problems also an object and a verdict.
func FuzzRead(f *testing.F) {
	for _, text := range []string{good, "name: a\n" + good + "---\n" + good, "defaults: {gates: {A: true}}\n---\n" + good,
		"{\"manifest\": {\"kind\": \"Pod\"}, \"expect\": {\"verdict\": \"denied\", \"patch\": []}}", "manifest: &a {b: c}\nold: *a\nexpect: {verdict: denied, after: {contains: {a: 1e9}}}",
		"expect:\n  verdict: allowed\n  message: {contains: [a, b]}\n  causes: {contains: [{field: x}]}\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, _ := Read("dir/f.case.yaml", []byte(text))
		for _, c := range found {
			if !strings.HasPrefix(c.Name, "dir/") && c.Err == nil {
				t.Errorf("no name: %+v", c)
			}
			if c.Err == nil && (c.Manifest.given() == c.Review.given() || c.expect["verdict"].value == nil) {
				t.Errorf("without a problem: %+v", c)
			}
			_ = c.names()
		}
	})
}
