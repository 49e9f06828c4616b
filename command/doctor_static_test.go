package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/server/suite"
)

// foreignOnDisk is a webhook of somebody else in a file of the API server: for what only such a webhook is called for, and for a resource
// that does not exist.
const foreignOnDisk = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard.static.k8s.io}
webhooks:
- {name: guard.example.com, clientConfig: {url: "https://localhost:1/guard"}, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 3,
   failurePolicy: Ignore, rules: [
    {apiGroups: [admissionregistration.k8s.io], apiVersions: [v1], operations: [DELETE], resources: [validatingwebhookconfigurations]},
    {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pod]}]}
`

func doctorBeside(t *testing.T, args ...string) (code int, out string, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "guard.yaml"), []byte(foreignOnDisk), 0o600); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	program := Program{Suites: suite.List{colocation.New()}.WithDefaults(), Out: &text, Err: &text}
	code = program.Run(t.Context(), append([]string{"doctor", "--cluster=files", "--cluster-dir", t.TempDir(), "--static-dir", dir}, args...))
	return code, text.String(), dir
}

// TestDoctorReadsStaticFiles: webhooks in files of the API server are examined like others, but that they are called for webhook
// configurations is right, and no kubectl can change them.
func TestDoctorReadsStaticFiles(t *testing.T) {
	code, out, dir := doctorBeside(t)
	for _, want := range []string{"ValidatingWebhookConfiguration guard.static.k8s.io, webhook guard.example.com", "rule-unknown-resource",
		"look: ${EDITOR:-vi} " + dir + "/guard.yaml", "every API server has its own", "1 webhook in 1 configuration: "} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	for _, not := range []string{"rule-never-sent", "kubectl patch", "kubectl edit", "kubectl get validating"} {
		if strings.Contains(out, not) {
			t.Errorf("it says %q:\n%s", not, out)
		}
	}
	if code == 0 {
		t.Error("nothing is found")
	}
}

// TestDoctorAsksStaticFiles: for a request, a webhook in a file of the API server has its verdict.
func TestDoctorAsksStaticFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: c}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := doctorBeside(t, file, "--operation=DELETE"); !strings.Contains(out, "guard.example.com  called") {
		t.Error(out)
	}
}

// TestDoctorRefusesAPIConfigurations: a configuration that an API server does not take from a file is an error that names the file.
func TestDoctorRefusesAPIConfigurations(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "guard.yaml"), []byte(strings.ReplaceAll(foreignOnDisk, ".static.k8s.io", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	program := Program{Suites: suite.List{colocation.New()}.WithDefaults(), Out: &out, Err: &out}
	if code := program.Run(t.Context(), []string{"doctor", "--cluster-dir", t.TempDir(), "--static-dir", dir}); code != 2 || !strings.Contains(out.String(), "guard.yaml") {
		t.Errorf("%d %s", code, out.String())
	}
}
