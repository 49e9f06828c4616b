package quota_test

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
	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// TestQuota: the samples, as text and JSON, with the exit codes.
func TestQuota(t *testing.T) {
	const pod = "../../samples/manifests/quota-pod.yaml"
	text, err := os.ReadFile(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, in, says string
		code           int
	}{
		{"", "", "team-a  cpu       5     0         8      2     departments (spec.max)\n", 0},
		{"-f " + pod, "", "1     Pod api  team-a  cpu       1      yes   departments (spec.max)\n", 0},
		{"-f -", strings.ReplaceAll(string(text), `cpu: "1"`, `cpu: "3"`), "1     Pod api  team-a  cpu       3      no    departments (spec.max)\n", 1},
		{"-f " + pod + " -o json", "", `"fits": "yes"`, 0},
		{"-f - -o json", strings.ReplaceAll(string(text), "name: api", `name: "a\u202eb"`), `"Pod a\u202eb"`, 0},
		{"-f -", "{apiVersion: v1, kind: Service, metadata: {name: s}}", "the manifests have no pods\n", 0},
		{"-f missing.yaml", "", "", 2},
		{"-o yaml", "", "", 2},
		{"-n quotas", "", "forced        cpu                         not known", 2},
	} {
		var out, errs bytes.Buffer
		suites := suite.List{colocation.Suite()}
		env := tool.Env{Suites: suites, Streams: cli.Streams{In: strings.NewReader(c.in), Out: &out, Err: &errs}}
		args := []string{"quota", "--cluster-dir", "../../samples/cluster", "-n", "team-a"}
		if code := command.Run(t.Context(), env, append(args, strings.Fields(c.args)...)); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: exit %d\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}

// TestQuotaNamespace: without -n, the namespace is that of the kubeconfig's context.
func TestQuotaNamespace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind":"ElasticQuotaList","apiVersion":"scheduling.sigs.k8s.io/v1alpha1","items":[]}`)
	}))
	t.Cleanup(server.Close)
	for context, want := range map[string]string{`"namespace":"shop",`: "namespace shop:", "": "namespace default:"} {
		kubeconfig := filepath.Join(t.TempDir(), "config")
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u"}],`+
			`"contexts":[{"name":"c","context":{%s"cluster":"c","user":"u"}}]}`, server.URL, context)
		if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &errs}}
		if code := command.Run(t.Context(), env, []string{"quota", "--kubeconfig", kubeconfig}); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%q: exit %d\n%s%s", context, code, out.String(), errs.String())
		}
	}
	if got, err := (&flags.Cluster{Source: "api"}).NamespaceOr("named"); got != "named" || err != nil {
		t.Error(got, err)
	}
}
