package webhooks

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/internal/apiserver"
)

// TestRestorationIsUndone: usher is disabled while a replica restores its registration, which is about to end, or whose API server
// fails once or twice. Nothing is left registered.
func TestRestorationIsUndone(t *testing.T) {
	for name, failing := range map[string]int{"ends": 0, "one answer is lost": 1, "two answers are lost": 2, "four answers are lost": 4} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			stored := map[string]bool{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch {
				case r.Method == http.MethodPatch:
					stored[r.URL.Path] = true
					end()
				case r.Method == http.MethodDelete:
					delete(stored, r.URL.Path)
				default:
					body = nil
				}
				w.Header().Set("Content-Type", "application/json")
				switch failing--; {
				case failing >= 0:
					w.WriteHeader(http.StatusInternalServerError)
					_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}`)
				case body == nil:
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
				case len(body) == 0:
					_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)
				default:
					_, _ = w.Write(body)
				}
			}))
			defer server.Close()
			client, err := apiserver.New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			at := Address{Namespace: "usher", Service: "usher", CABundle: []byte("x")}
			var plan Plan
			for _, c := range needed(installedRoutes(), at) {
				plan.parts = append(plan.parts, part{apply: c})
			}
			r := Registrar{Client: client, At: at}
			done, err := r.reapply(ctx, plan, MarkerState{configuration{ObjectMeta: metav1.ObjectMeta{Name: Marker, UID: "1"}}})
			if left, _ := json.Marshal(stored); done != "" || err != nil || string(left) != "{}" {
				t.Errorf("%q, %v; left: %s", done, err, left)
			}
		})
	}
}
