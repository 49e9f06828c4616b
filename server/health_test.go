package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	var bad error
	h := &health{checks: map[string]func() error{"certificate": func() error { return bad }}}
	mux := http.NewServeMux()
	h.register(mux)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if code, text := get("/readyz"); code != 200 || text != "ok\n" {
		t.Errorf("%d %s", code, text)
	}
	bad = errors.New("expired")
	if code, text := get("/readyz"); code != 503 || !strings.Contains(text, "certificate: expired") {
		t.Errorf("%d %s", code, text)
	}
	bad = nil
	h.draining.Store(true)
	if code, text := get("/readyz"); code != 503 || text != "draining\n" {
		t.Errorf("draining: %d %s", code, text)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("draining is not dying: %d", code)
	}
}
