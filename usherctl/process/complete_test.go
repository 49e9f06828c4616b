package process

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletion: a shell completes values of flags and arguments, and namespaces of the cluster that kubectl uses.
func TestCompletion(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"payments"}},{"metadata":{"name":"apps"}}]}`)
	}))
	t.Cleanup(api.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", api.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, c := range []struct {
		program   string
		args      string
		want      []string
		directive string // as cobra prints it
	}{
		{"usherctl", "review -o", []string{"text", "patch", "json", "junit", "review"}, ":4"},
		{"usherctl", "steps -o", []string{"text", "json"}, ":4"},
		{"usher", "certs init -o", []string{"files", "secret"}, ":4"},
		{"usher", "serve --auth", []string{"off", "log", "enforce"}, ":4"},
		{"usher", "serve --suite", []string{"core", "colocation"}, ":4"},
		{"usherctl", "doctor --operation", []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}, ":4"},
		{"usher", "webhooks apply --inject", []string{"cert-manager", "openshift"}, ":4"},
		{"usherctl", "review samples/manifests/pod.yaml", []string{"yaml", "yml", "json"}, ":8"},
		{"usher", "serve --cluster-dir", nil, ":16"},
		{"usherctl", "learn --dir", nil, ":16"},
		{"usherctl", "explain -n", []string{"apps", "payments"}, ":4"},
		{"usher", "webhooks --exclude-namespace", []string{"apps", "payments"}, ":4"},
		{"usherctl", "steps --cluster-dir samples/cluster -n", []string{"apps", "batch", "colocation", "devices", "kube-system", "leaving", "reports", "shop"}, ":4"},
		{"usherctl", "explain --kubeconfig /nowhere -n", nil, ":4"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out bytes.Buffer
			runAs(c.program, strings.NewReader(""), &out, io.Discard, append(append([]string{"__complete"}, strings.Fields(c.args)...), "")...)
			if want := strings.Join(append(c.want, c.directive), "\n"); strings.TrimSpace(out.String()) != want {
				t.Errorf("got:\n%s\nwant:\n%s", &out, want)
			}
		})
	}
	if _, out, _ := run(t, "", "__complete", "learn", "check", ""); !strings.Contains(out, "\n04-not-called\tThe webhook that is never called\n") {
		t.Errorf("lessons: %s", out)
	}
}
