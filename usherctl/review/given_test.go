package review

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// TestNamespacesOfTheCluster: with --doctor --cluster=api, a Namespace that is in no file is that of the cluster, with its LimitRanges, and what cannot
// be read is said.
func TestNamespacesOfTheCluster(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/namespaces/apps":
			_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"apps","labels":{"team":"red"}}}`)
		case "/api/v1/namespaces/apps/limitranges":
			_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"LimitRangeList","metadata":{},"items":[{"metadata":{"name":"small","namespace":"apps"}}]}`)
		case "/api/v1/namespaces/secret", "/api/v1/namespaces/secret/limitranges":
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u"}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var documents string
	for _, name := range []string{"apps", "secret", "gone", "mine"} {
		documents += "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: " + name + "}}\n"
	}
	documents += "---\n{apiVersion: v1, kind: Namespace, metadata: {name: mine}}\n"
	empty, err := suite.Load(suite.Setup{})
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{"api": "apps", "files": ""} {
		var errs bytes.Buffer
		r := &reviewing{Env: tool.Env{Streams: cli.Streams{Err: &errs}}, o: options{doctor: true, registered: flags.Cluster{Source: source, Kubeconfig: kubeconfig}}, instance: empty}
		given, err := r.stored(t.Context(), requests.Read("test", strings.NewReader(documents)))
		if err != nil {
			t.Fatal(err)
		}
		got, ranges := "", 0
		for _, o := range given {
			if o.Kind == "Namespace" && o.File != "test" && strings.Contains(string(o.JSON), `"team":"red"`) {
				got += "apps"
			}
			if o.Kind == "LimitRange" && strings.Contains(string(o.JSON), `"namespace":"apps"`) {
				ranges++
			}
		}
		if err := r.unread["secret"]; ranges != len(want)/4 || (err != nil) != (source == "api") {
			t.Errorf("%s: %d LimitRanges of apps; those of secret: %v", source, ranges, err)
		}
		if says := errs.String(); got != want || len(given) != 5+len(want)/2 || strings.Contains(says, "secret") != (source == "api") || strings.Contains(says, "gone") {
			t.Errorf("%s: %d objects, %q, and it says %q", source, len(given), got, says)
		}
	}
}
