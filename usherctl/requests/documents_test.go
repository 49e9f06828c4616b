package requests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/internal/cli"
)

// TestVersionOfWorkload: a workload in a version that no API server serves is an error, also where only its pods are reviewed.
func TestVersionOfWorkload(t *testing.T) {
	for version, want := range map[string]string{"apps/v1": "", "apps/v1beta1": "apiVersion apps/v1beta1: Deployment has no such version; did you mean apps/v1?", "apps/v2": "apps/v2"} {
		manifest := "apiVersion: " + version + "\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: c, image: i}]}}}"
		none := func(*unstructured.Unstructured) bool { return false }
		pod := WithPods(Read("test", strings.NewReader(manifest)), nil, Options{Operation: admissionv1.Create}, none)[0]
		if _, err := AsReview(pod, Options{Operation: admissionv1.Create}, NewCatalogue(nil)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
}

// TestFieldInFile: a field is found where the file has it, or what it follows from.
func TestFieldInFile(t *testing.T) {
	named, unnamed := Document{JSON: []byte(`{"metadata":{"name":"p"}}`)}, Document{JSON: []byte(`{"metadata":{"generateName":"p-"}}`)}
	ofTemplate := Document{JSON: []byte(`{"metadata":{"generateName":"p-"}}`), Template: "spec.template"}
	for _, c := range []struct {
		of          Document
		field, want string
	}{
		{named, "metadata.name", "metadata.name"}, {unnamed, "metadata.name", "metadata.generateName"}, {unnamed, "metadata.labels", "metadata.labels"},
		{ofTemplate, "metadata.name", "metadata.name"}, {ofTemplate, "metadata.labels", "spec.template.metadata.labels"},
	} {
		if got := c.of.FieldInFile(c.field); got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.field, c.of.JSON, got, c.want)
		}
	}
}

// TestEmptyFiles: a file without an object, as helm template writes them, is an error only if no file has any.
func TestEmptyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "")
	write("b.yaml", "---\n# Source: chart/templates/none.yaml\n")
	if got := ReadFiles(cli.Streams{}, []string{dir}, false); len(got) != 2 || got[0].Err == nil || got[1].Err == nil {
		t.Errorf("nothing but empty files: %+v", got)
	}
	write("c.yaml", "{apiVersion: v1, kind: Pod}")
	if got := ReadFiles(cli.Streams{}, []string{dir}, false); len(got) != 1 || got[0].Err != nil {
		t.Errorf("empty files beside others: %+v", got)
	}
}
