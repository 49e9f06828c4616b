package reader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/apiserver"
)

var services = reader.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, Resource: "services"}

// TestFiles: files are read like a cluster, and what they lack is not found.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: one}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: two}\n")
	write(t, dir, "ignored.txt", "no manifest")
	source, err := reader.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		namespace string
		want      int
	}{{"", 2}, {"one", 1}, {"three", 0}} {
		if found, err := source.List(t.Context(), services, c.namespace); err != nil || len(found) != c.want {
			t.Errorf("namespace %q: %d objects, want %d, %v", c.namespace, len(found), c.want, err)
		}
	}
	if raw, err := source.Get(t.Context(), services, "two", "a"); err != nil || !strings.Contains(string(raw), `"two"`) {
		t.Errorf("get two/a: %s, %v", raw, err)
	}
	if _, err := source.Get(t.Context(), services, "two", "b"); !errors.Is(err, reader.ErrNotFound) || err.Error() != "services two/b does not exist" {
		t.Errorf("get two/b: %v", err)
	}
	write(t, dir, "b.yaml", "kind: [")
	if _, err := reader.Files(dir); err == nil || !strings.Contains(err.Error(), "b.yaml") {
		t.Errorf("a bad file is not reported: %v", err)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAPI: a list is read page by page; missing, forbidden and unavailable are three different things.
func TestAPI(t *testing.T) {
	source := serving(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/v1/services" && r.URL.Query().Get("continue") == "":
			_, _ = fmt.Fprint(w, `{"metadata":{"continue":"more"},"items":[{"metadata":{"name":"a"}}]}`)
		case r.URL.Path == "/api/v1/services":
			_, _ = fmt.Fprint(w, `{"metadata":{},"items":[{"metadata":{"name":"b"}}]}`)
		case strings.HasSuffix(r.URL.Path, "/missing"):
			refuse(w, 404, "NotFound")
		default:
			refuse(w, 403, "Forbidden")
		}
	})
	if found, err := source.List(t.Context(), services, ""); err != nil || len(found) != 2 {
		t.Errorf("%d of 2 objects, %v", len(found), err)
	}
	if _, err := source.Get(t.Context(), services, "x", "missing"); !errors.Is(err, reader.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	unreadable, _ := errors.AsType[*reader.UnreadableError](second(source.List(t.Context(), services, "x")))
	if unreadable == nil || !unreadable.Forbidden || !strings.HasPrefix(unreadable.Error(), "services in namespace x may not be read: ") {
		t.Errorf("forbidden: %v", unreadable)
	}
}

// TestAPINotReached: an API server that does not answer is asked once.
func TestAPINotReached(t *testing.T) {
	source := connect(t, "http://127.0.0.1:1") // a port that nobody gets from the system, unlike one that was just closed
	for range 3 {
		unreadable, _ := errors.AsType[*reader.UnreadableError](second(source.Get(t.Context(), services, "x", "a")))
		if unreadable == nil || unreadable.Forbidden || !strings.Contains(unreadable.Error(), "refused") {
			t.Errorf("%v", unreadable)
		}
	}
}

// TestAPIThatHangs: a request ends with its context, and the next one is not sent.
func TestAPIThatHangs(t *testing.T) {
	asked := make(chan bool, 10)
	source := serving(t, func(_ http.ResponseWriter, r *http.Request) { asked <- true; <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := source.Get(ctx, services, "x", "a"); err == nil {
		t.Error("no error")
	}
	if _, err := source.Get(t.Context(), services, "x", "a"); err == nil || len(asked) != 0 {
		t.Errorf("asked again: %v", err)
	}
}

func serving(t *testing.T, handler http.HandlerFunc) reader.Source {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return connect(t, server.URL)
}

func connect(t *testing.T, url string) reader.Source {
	t.Helper()
	client, err := apiserver.New(&rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	return reader.API(client)
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": "no"})
}

func second[T any](_ T, err error) error { return err }
