package doctor_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// TestCanaryFlags: nothing is sent without a yes, and what a canary cannot be is refused.
func TestCanaryFlags(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	const nobody = "{clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"
	if err := os.WriteFile(kubeconfig, []byte(nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, says string }{
		{"--canary --kubeconfig " + kubeconfig, "--yes"},
		{"--canary --yes --cluster-dir .", "--cluster=api"},
		{"--canary --operation DELETE", "--operation"},
		{"--canary --as jane", "--as"},
		{"--canary --list", "--list"},
		{"--yes", "--canary"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{In: strings.NewReader("y\n"), Out: &out, Err: &errs}}
			if code := command.Run(t.Context(), env, append([]string{"doctor"}, strings.Fields(c.args)...)); code != 2 || !strings.Contains(errs.String(), c.says) || out.Len() > 0 {
				t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
			}
		})
	}
}

// TestCanaryOfTemplates: the pods of a template at --template-path are sent, beside the custom resource itself.
func TestCanaryOfTemplates(t *testing.T) {
	var lock sync.Mutex
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
			_, _ = fmt.Fprint(w, `{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "status": {"userInfo": {"username": "jane"}}}`)
		case r.Method == http.MethodPost:
			lock.Lock()
			defer lock.Unlock()
			sent = append(sent, r.URL.Path+"?"+r.URL.Query().Encode())
			_, _ = io.Copy(w, r.Body)
		case strings.HasSuffix(r.URL.Path, "webhookconfigurations"):
			_, _ = fmt.Fprint(w, `{"items": []}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound"}`)
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	kubeconfig, rollout := filepath.Join(dir, "config"), filepath.Join(dir, "rollout.yaml")
	for file, text := range map[string]string{
		kubeconfig: "{clusters: [{name: c, cluster: {server: '" + server.URL + "'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}",
		rollout: "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r, namespace: shop}, " +
			"spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &errs}}
	command.Run(t.Context(), env, []string{"doctor", "--canary", "--yes", "--kubeconfig", kubeconfig, "--template-path", "spec.template", rollout})
	want := []string{"/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts?dryRun=All", "/api/v1/namespaces/shop/pods?dryRun=All"}
	if !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q: %s%s", sent, want, out.String(), errs.String())
	}
}
