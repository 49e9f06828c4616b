package reader_test

import (
	"strings"
	"testing"

	"usher.dev/usher/cluster/reader"
)

const onDisk = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAME}
webhooks: [{name: w.example.com, clientConfig: {CLIENT}, sideEffects: None, admissionReviewVersions: [v1]}]
`

func staticFile(name, client string) string {
	return strings.NewReplacer("NAME", name, "CLIENT", client).Replace(onDisk)
}

// TestStatic: configurations in files of an API server are listed before those of the API, and their file is known.
func TestStatic(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", staticFile("a.static.k8s.io", "url: 'https://127.0.0.1'"))
	source, err := reader.Source{}.WithStatic(dir)
	if err != nil || !source.HasStatic() {
		t.Fatal(err)
	}
	kind := reader.NewKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
	if found, err := source.List(t.Context(), kind, ""); err != nil || len(found) != 1 {
		t.Errorf("%s %v", found, err)
	}
	if file := source.StaticFile(kind.Kind, "a.static.k8s.io"); file != dir+"/a.yaml" {
		t.Error(file)
	}
	if file := source.StaticFile(kind.Kind, "b.static.k8s.io"); file != "" {
		t.Error(file)
	}
	if none, err := (reader.Source{}).WithStatic(); err != nil || none.HasStatic() {
		t.Error(err)
	}
}

// TestStaticErrors: what keeps an API server from starting is an error with the file, the value and the rule.
func TestStaticErrors(t *testing.T) {
	url := "url: 'https://127.0.0.1'"
	for name, c := range map[string]struct{ file, says string }{
		"another kind": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "ConfigMap c: an API server reads only webhook configurations"},
		"its name":     {staticFile("a", url), "metadata.name a: must end in .static.k8s.io"},
		"twice":        {staticFile("a.static.k8s.io", url) + "---\n" + staticFile("a.static.k8s.io", url), "is in two files"},
		"a service":    {staticFile("a.static.k8s.io", "service: {namespace: ns, name: svc}"), "webhooks[0].clientConfig: must have a url"},
		"no type":      {staticFile("a.static.k8s.io", "url: 7"), "cannot unmarshal"},
	} {
		dir := t.TempDir()
		write(t, dir, "a.yaml", c.file)
		if _, err := (reader.Source{}).WithStatic(dir); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir+"/a.yaml, document") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (reader.Source{}).WithStatic("/does/not/exist"); err == nil || !strings.Contains(err.Error(), "--static-dir /does/not/exist: ") {
		t.Error(err)
	}
}
