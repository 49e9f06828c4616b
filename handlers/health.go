package handlers

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

// Health is what the probes ask: /healthz tells that the process answers, /readyz that it may be sent reviews.
type Health struct {
	// Checks name what must hold to be ready, besides not draining.
	Checks   map[string]func() error
	draining atomic.Bool
}

// Drain makes /readyz answer 503, so that clients go elsewhere.
func (h *Health) Drain() { h.draining.Store(true) }

// Draining reports whether Drain was called.
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
