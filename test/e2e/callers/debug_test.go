package callers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestDebugAuth: the API server says who may read the pages under /debug, by RBAC as docs/who-calls.md prints it.
func TestDebugAuth(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	page, err := kubetest.ReadFile("docs/who-calls.md")
	must(t, err)
	_, rest, _ := strings.Cut(page, "## Who may read /debug")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	rights, _, _ := strings.Cut(rest, "```")
	for _, name := range []string{"usher", "reader", "other"} {
		cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "usher"}}`)
		cluster.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": %q, "namespace": "usher"}}`, name))
	}
	own, err := cluster.Kubeconfig("system:serviceaccount:usher:usher", "system:serviceaccounts", "system:serviceaccounts:usher")
	must(t, err)
	u, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: "debug", Flags: []string{"--debug-auth", "--pprof", "--kubeconfig=" + own}})
	must(t, err)
	t.Cleanup(u.Stop)
	reader, other := token(ctx, t, "reader"), token(ctx, t, "other")
	if code, text := ask(ctx, t, u, "/debug/pprof/heap", reader); code != 503 || !strings.Contains(text, "system:auth-delegator") {
		t.Errorf("without the right to ask: %d %s", code, text)
	}
	cluster.MustApply(ctx, t, rights)
	_, err = cluster.Kubectl(ctx, "create", "clusterrolebinding", "usher-debug", "--clusterrole=usher-debug", "--serviceaccount=usher:reader")
	must(t, err)
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) error { // RBAC is watched, and refusals are kept for 10 s
		if code, text := ask(ctx, t, u, "/debug/pprof/heap?debug=1", reader); code != 200 || !strings.Contains(text, "heap profile") {
			return fmt.Errorf("a user who may: %d %.200s", code, text)
		}
		return nil
	}))
	for _, test := range []struct {
		name, path, token string
		code              int
		text              string
	}{
		{"no token", "/debug/pprof/heap", "", 401, "kubectl create token"},
		{"an unknown token", "/debug/pprof/heap", "nobody", 401, "does not know the bearer token"},
		{"a user who may not", "/debug/pprof/heap", other, 403, `user "system:serviceaccount:usher:other" may not get /debug/pprof/heap`},
		{"a page that is not permitted", "/debug/else", reader, 403, "may not get /debug/else"},
		{"what is open", "/healthz", "", 200, "ok"},
	} {
		t.Run(test.name, func(t *testing.T) {
			must(t, kubetest.Eventually(ctx, func(ctx context.Context) error { // an address may ask only so often
				if code, text := ask(ctx, t, u, test.path, test.token); code != test.code || !strings.Contains(text, test.text) {
					return fmt.Errorf("%d %.300s, want %d %s", code, text, test.code, test.text)
				}
				return nil
			}))
		})
	}
	must(t, cluster.StopAPIServer(ctx))
	code, text := ask(ctx, t, u, "/debug/pprof/cmdline", reader)
	must(t, cluster.StartAPIServer(ctx))
	if code != 503 || !strings.Contains(text, "the API server cannot be asked who you are") {
		t.Errorf("without an API server: %d %s", code, text)
	}
}

// token returns a token of a service account.
func token(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	answer, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/usher/serviceaccounts/"+name+"/token",
		kubetest.Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": kubetest.Object{"expirationSeconds": 3600}})
	must(t, err)
	return answer.String("status", "token")
}

// ask reads a page of the operations listener.
func ask(ctx context.Context, t *testing.T, u *kubetest.Usher, path, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+u.Replicas[0].Operations()+path, nil)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(text)
}
