package promises

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/config"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/policytest"
	"usher.dev/usher/usherctl/schema"
	"usher.dev/usher/usherctl/tool"
)

// schemas are the files with the schemas, by the command that prints each.
var schemas = map[string]string{"policy": "samples/schema/policy.json", "case": "samples/schema/case.json"}

// TestGoldenSchemas: the schemas of the checkout are those that the program prints.
func TestGoldenSchemas(t *testing.T) {
	for kind, file := range schemas {
		code, out, errors := usherctl(t, "schema", kind)
		if code != 0 {
			t.Fatal(errors)
		}
		harness.CompareGolden(t, file, out)
	}
}

// policySchema returns the schema of the policy file.
func policySchema() *schema.Node { return schema.PolicyOf(tool.Env{Suites: routes.Suites()}) }

// TestEveryFieldIsDescribed: no field of the policy file or of cases lacks a description.
func TestEveryFieldIsDescribed(t *testing.T) {
	described := 0
	var walk func(n *schema.Node, at string)
	walk = func(n *schema.Node, at string) {
		for _, name := range n.Fields {
			child := n.Properties[name]
			if described++; child.Description == "" && n.Each == nil {
				t.Errorf("%s.%s: say what it is in the tag doc of the field, or in the Tag of the section", at, name)
			}
			walk(child, at+"."+name)
		}
		if n.Items != nil {
			walk(n.Items, at+"[]")
		}
	}
	walk(policySchema(), "policy")
	walk(policytest.Schema(nil), "case")
	if described < 150 {
		t.Errorf("only %d fields", described)
	}
}

// schemaFiles returns the policies and the files of cases for people to read, by their kind.
func schemaFiles(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"policy": {"samples/policy.yaml"}}
	for pattern, kind := range map[string]string{"samples/policies/*.yaml": "policy", "samples/tests/*/policy.yaml": "policy",
		"usherctl/learn/lessons/*/*/policy.yaml": "policy", "samples/tests/*/*case.yaml": "case"} {
		files, _ := filepath.Glob(pattern)
		if len(files) == 0 {
			t.Fatalf("%s: no files", pattern)
		}
		all[kind] = append(all[kind], files...)
	}
	slices.Sort(all["policy"])
	slices.Sort(all["case"])
	return all
}

// documents returns the documents of a file.
func documents(text string) []string { return regexp.MustCompile(`(?m)^---\n`).Split(text, -1) }

// TestSamplesNameTheirSchema: each document begins with the line by which editors find its schema: the language server reads it
// for each document of a file.
func TestSamplesNameTheirSchema(t *testing.T) {
	for kind, files := range schemaFiles(t) {
		for _, file := range files {
			to, err := filepath.Rel(filepath.Dir(file), schemas[kind])
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range documents(harness.ReadFile(t, file)) {
				if line := "# yaml-language-server: $schema=" + filepath.ToSlash(to) + "\n"; !strings.HasPrefix(text, line) {
					t.Errorf("%s: document %d does not begin with %s", file, i+1, line)
				}
			}
		}
	}
	dir := t.TempDir()
	usherctl(t, "learn", "1", "--dir", dir)
	lesson := filepath.Join(dir, "01-first-webhook")
	line, _, _ := strings.Cut(harness.ReadFile(t, filepath.Join(lesson, "policy.yaml")), "\n")
	_, to, _ := strings.Cut(line, "$schema=")
	if harness.ReadFile(t, filepath.Join(lesson, to)) != harness.ReadFile(t, schemas["policy"]) {
		t.Errorf("%s: is not the schema of policies, in the folder of a lesson", line)
	}
}

// judge decides whether documents of a kind are valid, in the schema and in usher itself.
type judge struct {
	schema *jsonschema.Schema
	usher  func(document any) []string
}

func newJudge(t *testing.T, kind string) judge {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(harness.ReadFile(t, schemas[kind])))
	if err == nil {
		err = compiler.AddResource(kind, parsed)
	}
	if err != nil {
		t.Fatal(err)
	}
	sections := routes.Suites().Schema()
	usher := func(document any) (problems []string) {
		_, errs := config.Parse(asJSON(document), sections)
		for _, err := range errs {
			problems = append(problems, err.Error())
		}
		return problems
	}
	if kind == "case" {
		usher = func(document any) (problems []string) {
			cases, errs := policytest.Read("case.yaml", asJSON(document))
			for _, c := range cases {
				errs = append(errs, c.Err)
			}
			for _, err := range errs {
				if err != nil {
					problems = append(problems, strings.Split(err.Error(), "\n")...)
				}
			}
			return problems
		}
	}
	return judge{compiler.MustCompile(kind), usher}
}

func asJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// inSchema returns the problem that the schema finds.
func (j judge) inSchema(document any) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON(document)))
	if err != nil {
		return err
	}
	return j.schema.Validate(value)
}

// shelf returns the documents of all samples of a kind, each with its file.
func shelf(t *testing.T, kind string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, file := range schemaFiles(t)[kind] {
		for i, text := range documents(harness.ReadFile(t, file)) {
			var value any
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(file, err)
			}
			all[fmt.Sprintf("%s#%d", file, i+1)] = value
		}
	}
	return all
}

// TestSamplesMeetTheSchema: every sample is valid in the schema and in usher.
func TestSamplesMeetTheSchema(t *testing.T) {
	for kind := range schemas {
		j, all := newJudge(t, kind), shelf(t, kind)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if err, problems := j.inSchema(all[name]), j.usher(all[name]); err != nil || len(problems) > 0 {
				t.Errorf("%s: %v, %q", name, err, problems)
			}
		}
	}
}
