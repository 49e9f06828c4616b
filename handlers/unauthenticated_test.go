package handlers

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/admit"
)

// unread fails the test if it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of an unknown caller is read")
	return 0, io.EOF
}

// TestStranger: an unknown caller gets a 401 before any of the body is read, also on a route for heartbeats. Probes are
// answered.
func TestStranger(t *testing.T) {
	var seen []Outcome
	e := testServer(func(_ admit.Route, d Decision, _ time.Duration) { seen = append(seen, d.Outcome) })
	e.Caller = func(*http.Request) error { return errors.New("no token was sent") }
	beat := route(succeed)
	beat.For[0].Resources = append(beat.For[0].Resources, "nodes/status")
	for _, r := range []admit.Route{route(succeed), beat} {
		w := httptest.NewRecorder()
		e.Serve([]admit.Route{r}).ServeHTTP(w, postTo(unread{t}))
		if h := w.Header(); w.Code != 401 || h.Get("WWW-Authenticate") != "Bearer" || h.Get("Connection") != "close" || h.Get("Retry-After") != "" ||
			!strings.Contains(w.Body.String(), "no token was sent") {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	if len(seen) != 2 || seen[0] != Unauthenticated || seen[1] != Unauthenticated {
		t.Errorf("counted as %v", seen)
	}
	w := httptest.NewRecorder()
	e.Serve(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if w.Code != 200 {
		t.Errorf("/healthz: %d", w.Code)
	}
	e.Caller = func(*http.Request) error { return nil }
	w = httptest.NewRecorder()
	e.Serve([]admit.Route{route(succeed)}).ServeHTTP(w, postTo(strings.NewReader(podReview)))
	if w.Code != 200 {
		t.Errorf("a known caller: %d %s", w.Code, w.Body)
	}
}
