package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// The API server says in ?timeout= how long it waits: 1 to 30 s, 10 s by default.
const defaultTimeout, maxTimeout = 10 * time.Second, 30 * time.Second

// Observe is called once for each review, when it is decided and about to be answered.
type Observe func(Route, Decision, time.Duration)

// Edge is what all routes share where they meet the network.
type Edge struct {
	Observe Observe
	Limits  *Limits
	// Draining tells that the service is about to end: then every answer closes its connection, so that a client that keeps
	// one alive comes back to another replica.
	Draining func() bool
}

// Serve serves the routes, and answers anything else with a hint.
func (e Edge) Serve(routes []Route) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.Handle(route.Path, e.admission(route))
	}
	for _, path := range []string{"/health", "/healthz"} {
		mux.HandleFunc(path, alive)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such path; usher serves:\n"+strings.Join(paths(routes), "\n"), http.StatusNotFound)
	})
	return mux
}

func paths(routes []Route) []string {
	list := make([]string, len(routes))
	for i, r := range routes {
		list[i] = r.Path
	}
	return list
}

// admission answers one route.
func (e Edge) admission(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := e.review(route, w, r)
		defer e.Limits.drop(answer.held)
		if e.Draining() {
			w.Header().Set("Connection", "close")
		}
		answer.write(w)
	})
}

// review gives the answer to one review: read, decide, observe. It leaves nothing else behind: the caller may be slow to read.
func (e Edge) review(route Route, w http.ResponseWriter, r *http.Request) reply {
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), budget(r.URL.Query().Get("timeout")))
	defer cancel()
	sent := body{limits: e.Limits}
	defer sent.release()
	place, err := e.arrive(ctx, &sent, route.Heartbeat(), w, r)
	defer place.leave()
	var decision Decision
	if err != nil {
		decision.fail(err)
	} else {
		decision = route.Decide(ctx, sent.room.bytes, nil)
	}
	answer := e.encode(&decision)
	e.Observe(route, decision, time.Since(start))
	if decision.Request != nil {
		decision.Request.Release()
	}
	return answer
}

// arrive reads a review and waits until it may be decided.
func (e Edge) arrive(ctx context.Context, sent *body, heartbeat bool, w http.ResponseWriter, r *http.Request) (place, error) {
	if err := sent.receive(ctx, w, r); err != nil {
		return place{}, err
	}
	return e.Limits.enter(ctx, sent.room.bytes, heartbeat)
}

// budget is the time to decide in: what the API server waits, less a tenth and at least 100 ms for the way back.
func budget(timeout string) time.Duration {
	wait, err := time.ParseDuration(timeout)
	if err != nil || wait <= 0 {
		wait = defaultTimeout
	}
	wait = min(wait, maxTimeout)
	return max(wait-max(wait/10, 100*time.Millisecond), wait/2)
}

// reply is an answer as it goes out.
type reply struct {
	code  int
	text  []byte
	json  bool // an AdmissionReview; else a text
	retry bool
	held  int // bytes counted in the limits
}

// encode makes the reply. It counts like a body until its caller has read it.
func (e Edge) encode(d *Decision) reply {
	if d.Response == nil {
		return fault(d)
	}
	text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: d.Type, Response: d.Response})
	if err != nil {
		d.fail(err)
		return fault(d)
	}
	if err := e.Limits.hold(len(text), len(text) <= firstRoom); err != nil {
		d.fail(err)
		return fault(d)
	}
	return reply{code: http.StatusOK, text: text, json: true, held: len(text)}
}

func fault(d *Decision) reply {
	answer := reply{code: d.Code}
	text := "internal error; usher's log says more"
	switch {
	case d.Outcome == Canceled:
		text = "the caller went away" // or closed his side of the connection, and still reads
	case d.Outcome == Invalid:
		text = d.Err.Error()
	case d.Code == http.StatusServiceUnavailable:
		answer.retry = true // the API server's client tries again within its timeout
		text = "not ready or too busy; try again"
	}
	if d.Request != nil && d.Outcome == Failed {
		text = fmt.Sprintf("%s (review %s)", text, d.Request.UID)
	}
	answer.text = []byte(text)
	return answer
}

// write sends the answer. It is the only place that does.
func (a reply) write(w http.ResponseWriter) {
	if a.retry {
		w.Header().Set("Retry-After", "1")
	}
	if !a.json {
		http.Error(w, string(a.text), a.code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(a.text)
}

func alive(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }
