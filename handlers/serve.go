package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// maxBody is the largest review in bytes: object and oldObject of at most 3 MiB each, which is the API server's own limit for
// what a client sends, and 1 MiB for the rest.
const maxBody = 7 << 20

// The API server says in ?timeout= how long it waits: 1 to 30 s, 10 s by default.
const defaultTimeout, maxTimeout = 10 * time.Second, 30 * time.Second

// Observe is called once for each review, when it is answered.
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

// admission answers one route: read, decide, write, observe.
func (e Edge) admission(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		wait := budget(r.URL.Query().Get("timeout"))
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		buffer := buffers.Get().(*bytes.Buffer)
		defer recycle(buffer)
		// A body that comes slower than its sender waits is of no use. The deadline ends with the body: later it would pass
		// for a caller who went away.
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(start.Add(wait))
		release, err := e.Limits.read(buffer, w, r)
		defer release()
		_ = control.SetReadDeadline(time.Time{})
		var decision Decision
		if err == nil {
			decision, err = e.decide(ctx, route, buffer.Bytes())
		}
		if err != nil {
			decision.fail(err)
		}
		if e.Draining() {
			w.Header().Set("Connection", "close")
		}
		write(w, decision)
		e.Observe(route, decision, time.Since(start))
		if decision.Request != nil {
			decision.Request.Release()
		}
	})
}

// decide decides when there is a slot for it. A heartbeat needs none: it is never sent away.
func (e Edge) decide(ctx context.Context, route Route, body []byte) (Decision, error) {
	if route.Heartbeat {
		return route.Decide(ctx, body, nil), nil
	}
	if err := e.Limits.enter(ctx); err != nil {
		return Decision{}, err
	}
	defer e.Limits.leave()
	return route.Decide(ctx, body, nil), nil
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

// buffers are bodies that were answered. A step must not keep parts of an object beyond its run.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxRecycled is the largest buffer kept, in bytes: its next user holds all of it, however little he sends.
const maxRecycled = 256 << 10

func recycle(b *bytes.Buffer) {
	if b.Cap() <= maxRecycled {
		b.Reset()
		buffers.Put(b)
	}
}

// checkHead refuses what is not a JSON body sent by POST, before a byte of it is read.
func checkHead(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &callerFault{http.StatusMethodNotAllowed, r.URL.Path + " takes an AdmissionReview by POST"}
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return &callerFault{http.StatusUnsupportedMediaType, "send plain JSON with -H 'Content-Type: application/json'"}
	}
	return nil
}

// bodyFault sorts what went wrong while a body was read. Half a review never counts.
func bodyFault(err error) error {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, errShed):
		return err
	case large:
		return &callerFault{http.StatusRequestEntityTooLarge, "the review is larger than 7 MiB"}
	}
	return badReview("the body ended early: %v", err)
}

// write sends the answer. It is the only place that does.
func write(w http.ResponseWriter, d Decision) {
	if d.Response == nil {
		writeFault(w, d)
		return
	}
	answer, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: d.Type, Response: d.Response})
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func writeFault(w http.ResponseWriter, d Decision) {
	text := "internal error; usher's log says more"
	switch {
	case d.Outcome == Canceled:
		text = "the caller went away" // or closed his side of the connection, and still reads
	case d.Outcome == Invalid:
		text = d.Err.Error()
	case d.Code == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1") // the API server's client tries again within its timeout
		text = "not ready or too busy; try again"
	}
	if d.Request != nil && d.Outcome == Failed {
		text = fmt.Sprintf("%s (review %s)", text, d.Request.UID)
	}
	http.Error(w, text, d.Code)
}

func alive(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }
