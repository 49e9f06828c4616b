package server

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// health serves the probes: /healthz says that the process is alive, /readyz that it accepts reviews.
type health struct {
	// checks are the conditions of readiness by name. A draining process is not ready either, so that clients use other replicas.
	checks   map[string]func() error
	draining atomic.Bool
}

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
