package server

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// health serves the probes: /healthz says that the process is alive, /readyz that it accepts reviews.
type health struct {
	// checks are the conditions of readiness by name. A draining process is not ready either.
	checks   map[string]func() error
	draining atomic.Bool
}

// drain makes /readyz answer 503, so that clients use other replicas.
func (h *health) drain() { h.draining.Store(true) }

// isDraining reports whether drain has been called.
func (h *health) isDraining() bool { return h.draining.Load() }

// register adds the probes to the operations mux.
func (h *health) register(mux *http.ServeMux) {
	mux.HandleFunc("/health", alive)
	mux.HandleFunc("/healthz", alive)
	mux.HandleFunc("/readyz", h.ready)
}

func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	if h.draining.Load() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	for name, check := range h.checks {
		if err := check(); err != nil {
			http.Error(w, fmt.Sprintf("%s: %v", name, err), http.StatusServiceUnavailable)
			return
		}
	}
	alive(w, r)
}

func alive(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }
