// Package handlers serves AdmissionReviews over HTTP: it reads a review, lets a chain decide, and writes the answer. No
// other package of the server knows both.
package handlers

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"usher.dev/usher/admit"
)

// The API server sends its timeout as ?timeout=: 1 to 30 s, by default 10 s.
const defaultTimeout, maxTimeout = 10 * time.Second, 30 * time.Second

// Observe is called once for each review, after the decision and before the answer is written.
type Observe func(admit.Route, Decision, time.Duration)

// Server answers reviews over HTTP. Its fields are shared by all routes.
type Server struct {
	Observe Observe
	Limits  *Limits
	// Caller returns an error if the sender of a request must not get an answer. It may be nil, and reads no body.
	Caller func(*http.Request) error
	// Draining reports whether the service is shutting down. Answers then close their connections, so that clients with
	// keep-alive connections reconnect to another replica.
	Draining func() bool
}

// Serve returns a handler that serves the routes, also those that are off, and answers other paths with a hint.
func (s Server) Serve(routes []admit.Route) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.Handle(route.Path, s.admission(route))
	}
	for _, path := range []string{"/health", "/healthz"} {
		mux.HandleFunc(path, alive)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such path; usher serves:\n"+strings.Join(paths(routes), "\n"), http.StatusNotFound)
	})
	return mux
}

func paths(routes []admit.Route) []string {
	var list []string
	for _, r := range routes {
		if !r.Off {
			list = append(list, r.Path)
		}
	}
	return list
}

// admission returns the handler of one route.
func (s Server) admission(route admit.Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := s.review(route, w, r)
		defer s.Limits.drop(answer.held)
		if s.Draining() {
			w.Header().Set("Connection", "close")
		}
		answer.write(w)
	})
}

// review reads, decides and observes one review, and returns the answer. Everything else is released when it returns,
// because the client may be slow to read the answer.
func (s Server) review(route admit.Route, w http.ResponseWriter, r *http.Request) reply {
	start := time.Now()
	ctx, cancel := context.WithDeadline(r.Context(), start.Add(budget(timeoutOf(r))))
	defer cancel()
	sent := body{limits: s.Limits}
	defer sent.release()
	granted, err := s.accept(ctx, &sent, route.Heartbeat(), w, r)
	defer granted.release()
	var decision Decision
	if err != nil {
		decision.fail(err)
	} else {
		decision = Decide(ctx, route, sent.buffer.bytes, nil)
	}
	answer := s.encode(&decision)
	s.Observe(route, decision, time.Since(start))
	if decision.Request != nil {
		decision.Request.Release()
	}
	return answer
}

// accept reads the body of a review, if its sender may post reviews, and waits until it may be decided.
func (s Server) accept(ctx context.Context, sent *body, heartbeat bool, w http.ResponseWriter, r *http.Request) (grant, error) {
	if s.Caller != nil {
		if err := s.Caller(r); err != nil {
			return grant{}, &unauthenticatedError{err}
		}
	}
	if err := sent.receive(ctx, w, r); err != nil {
		return grant{}, err
	}
	return s.Limits.acquire(ctx, sent.buffer.bytes, heartbeat)
}

// timeoutOf returns the parameter timeout, which is all that the API server sends.
func timeoutOf(r *http.Request) string {
	if only, ok := strings.CutPrefix(r.URL.RawQuery, "timeout="); ok && !strings.ContainsAny(only, "&%+;") {
		return only
	}
	return r.URL.Query().Get("timeout")
}

// budget returns the time to decide in: the API server's timeout less a tenth, and at least 100 ms, for the way back.
func budget(timeout string) time.Duration {
	wait, err := time.ParseDuration(timeout)
	if err != nil || wait <= 0 {
		wait = defaultTimeout
	}
	wait = min(wait, maxTimeout)
	return max(wait-max(wait/10, 100*time.Millisecond), wait/2)
}

func alive(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }
