package handlers

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

// Health serves the probes: /healthz says that the process is alive, /readyz that it accepts reviews.
type Health struct {
	// Checks are the conditions of readiness by name. A draining process is not ready either.
	Checks   map[string]func() error
	draining atomic.Bool
}

// Drain makes /readyz answer 503, so that clients use other replicas.
func (h *Health) Drain() { h.draining.Store(true) }

// Draining reports whether Drain has been called.
func (h *Health) Draining() bool { return h.draining.Load() }

// Register adds the probes to the operations mux.
func (h *Health) Register(mux *http.ServeMux) {
	mux.HandleFunc("/health", alive)
	mux.HandleFunc("/healthz", alive)
	mux.HandleFunc("/readyz", h.ready)
}

func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	if h.draining.Load() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	for name, check := range h.Checks {
		if err := check(); err != nil {
			http.Error(w, fmt.Sprintf("%s: %v", name, err), http.StatusServiceUnavailable)
			return
		}
	}
	alive(w, r)
}
