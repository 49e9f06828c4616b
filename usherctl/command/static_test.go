package command

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/tool"
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

// beside runs a command with foreignOnDisk in a directory, whose name replaces DIR.
func beside(t *testing.T, args ...string) (code int, out string, dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	if err := os.WriteFile(filepath.Join(dir, "guard.yaml"), []byte(foreignOnDisk), 0o600); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &text, Err: &text}}
	code = Run(t.Context(), env, args)
	return code, text.String(), dir
}

func doctorBeside(t *testing.T, args ...string) (code int, out string, dir string) {
	t.Helper()
	return beside(t, append([]string{"doctor", "--cluster=files", "--cluster-dir", t.TempDir(), "--static-dir=DIR"}, args...)...)
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
	env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &out}}
	if code := Run(t.Context(), env, []string{"doctor", "--cluster-dir", t.TempDir(), "--static-dir", dir}); code != 2 || !strings.Contains(out.String(), "guard.yaml") {
		t.Errorf("%d %s", code, out.String())
	}
}

// TestReviewReadsStaticFiles: with --doctor, a webhook in a file of the API server has its verdict; without that flag, a directory would
// not be read.
func TestReviewReadsStaticFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: c}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, _ := beside(t, "review", file, "--operation=DELETE", "--doctor", "--cluster-dir="+filepath.Dir(file), "--static-dir=DIR")
	if !strings.Contains(out, "guard.example.com  called") || strings.Contains(out, "files of the API server") {
		t.Error(out)
	}
	if code, out, _ := beside(t, "review", file, "--static-dir=DIR"); code != 2 || !strings.Contains(out, "--static-dir goes with --doctor") {
		t.Error(code, out)
	}
}

// TestReviewSaysWhatItLeavesOut: an API server does not show the webhooks in its files, and a review by its webhooks says so.
func TestReviewSaysWhatItLeavesOut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "webhookconfigurations") {
			_, _ = fmt.Fprint(w, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"List","metadata":{},"items":[]}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config": fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u"}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, server.URL),
		"c.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for flags, want := range map[string]string{
		"":                 "\nnot looked at: webhooks in files of the API server, which --static-dir DIR examines",
		"-q":               "\nnot looked at: webhooks in files of the API server",
		"-o=json":          "not looked at: webhooks in files of the API server",
		"--static-dir=DIR": "\nnot looked at: whether each API server reads the files of --static-dir",
	} {
		args := append([]string{"review", filepath.Join(dir, "c.yaml"), "--doctor", "--cluster=api", "--kubeconfig=" + filepath.Join(dir, "config")}, strings.Fields(flags)...)
		if _, out, _ := beside(t, args...); !strings.Contains(out, want) {
			t.Errorf("%s: it does not say %q: %s", flags, want, out)
		}
	}
}

// TestExplainReadsStaticFiles: a refusal by a webhook in a file of the API server is looked at in that file, since kubectl shows it not.
func TestExplainReadsStaticFiles(t *testing.T) {
	const message = `admission webhook "guard.example.com" denied the request: no`
	code, out, dir := beside(t, "explain", message, "--cluster-dir="+t.TempDir(), "--static-dir=DIR")
	if code != 1 || !strings.Contains(out, "guard.example.com is in a file of the API server") || !strings.Contains(out, "look: ${EDITOR:-vi} "+dir+"/guard.yaml") {
		t.Error(code, out)
	}
	if code, out, _ := beside(t, "explain", message, "--static-dir=DIR"); code != 2 || !strings.Contains(out, "--static-dir goes with --cluster=api or --cluster-dir") {
		t.Error(code, out)
	}
	if code, out, _ := beside(t, "explain", message, "--cluster-dir="+t.TempDir(), "--static-dir=DIR/none"); code != 2 || !strings.Contains(out, "none: no such file") {
		t.Error(code, out)
	}
}
