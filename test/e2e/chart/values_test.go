package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the table of values in deploy/chart/README.md")

// property is a value in values.schema.json.
type property struct {
	Type, Description    string
	Enum                 []string
	AdditionalProperties any `json:"additionalProperties"`
	Properties           ordered
}

// ordered are the properties of an object, in the order of the file.
type ordered []struct {
	name string
	property
}

func (o *ordered) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var p property
		if err := d.Decode(&p); err != nil {
			return err
		}
		*o = append(*o, struct {
			name string
			property
		}{name.(string), p})
	}
	return nil
}

// TestValuesAreDescribed: values.yaml and the schema have the same values, each is described, and the table in the
// chart's README.md is made from both.
func TestValuesAreDescribed(t *testing.T) {
	var schema property
	if err := json.Unmarshal([]byte(read(t, "deploy/chart/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/chart/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	table := "| value | default | meaning |\n|---|---|---|\n" + strings.Join(rows(t, "", schema, values), "")
	const begin, end = "<!-- values: made by TestValuesAreDescribed -->\n", "<!-- end of values -->\n"
	page := read(t, "deploy/chart/README.md")
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("deploy/chart/README.md has no lines %q and %q", begin, end)
	}
	wanted := before + begin + table + end + after
	if *update {
		if err := os.WriteFile(root(t, "deploy/chart/README.md"), []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != wanted {
		t.Errorf("the table in deploy/chart/README.md is old: cd test/e2e/chart && go test -run ValuesAreDescribed . -update")
	}
}

// rows returns a row of the table for each value that is not an object with values of its own.
func rows(t *testing.T, prefix string, schema property, values map[string]any) (all []string) {
	t.Helper()
	if len(schema.Properties) != len(values) || schema.AdditionalProperties != false {
		t.Errorf("values.yaml and values.schema.json have other values below %q, or additionalProperties is not false", prefix)
	}
	for _, p := range schema.Properties {
		value, known := values[p.name]
		if !known || p.Description == "" || !strings.HasSuffix(p.Description, ".") || p.Type == "" {
			t.Errorf("%s%s is not in values.yaml, or has no type or description", prefix, p.name)
		}
		if nested, ok := value.(map[string]any); ok && p.Properties != nil {
			all = append(all, rows(t, prefix+p.name+".", p.property, nested)...)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("| `%s%s` | `%s` | %s |\n", prefix, p.name, text, p.Description))
	}
	return all
}

// TestWrongValues: the schema refuses what would not work.
func TestWrongValues(t *testing.T) {
	for text, want := range map[string]string{
		"replicas: 1":                    "/replicas",
		"certs: self-signed":             "/certs",
		"suites: [all]":                  "/suites/0",
		"replica: 3":                     "replica",
		"image: {digest: latest}":        "/image/digest",
		"webhooks: {wait: soon}":         "/webhooks/wait",
		"webhooks: {failOpen: /all}":     "/webhooks/failOpen",
		"excludeNamespaces: kube-system": "/excludeNamespaces",
	} {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, err := render(t, "usher", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", text, err, want)
		}
	}
}

// TestLint: `helm lint --strict` has no complaint, with the defaults and with the values of each overlay.
func TestLint(t *testing.T) {
	lint := action.NewLint()
	lint.Strict, lint.Namespace, lint.KubeVersion = true, "usher", &common.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}
	for _, overlay := range overlays(t) {
		result := lint.Run([]string{root(t, "deploy/chart")}, valuesOf(t, overlay))
		for _, m := range result.Messages {
			if m.Severity > support.InfoSev { // that an icon is missing
				t.Errorf("%s: %s", overlay, m)
			}
		}
		if len(result.Errors) > 0 {
			t.Errorf("%s: %v", overlay, result.Errors)
		}
	}
}

// TestSameFiles: the files of the chart that are copies are the same as those that they are copies of.
func TestSameFiles(t *testing.T) {
	if read(t, "deploy/chart/policy.yaml") != read(t, "deploy/base/policy.yaml") {
		t.Error("deploy/chart/policy.yaml differs from deploy/base/policy.yaml: cp deploy/base/policy.yaml deploy/chart/")
	}
}
