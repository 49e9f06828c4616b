package server

import (
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/callers"
)

// maxScrapes limits how many requests for metrics, each of which takes milliseconds of CPU time, are answered at the same
// time; others get a 503.
const maxScrapes = 4

// operations returns the handler of the operations listener.
func (s *service) operations() (http.Handler, error) {
	protected, err := s.protection()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	s.health.register(mux)
	mux.Handle("/metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	mux.Handle("/debug/", protected(s.debugPages()))
	return mux, nil
}

// protection returns what protects the pages under /debug.
func (s *service) protection() (func(http.Handler) http.Handler, error) {
	if !s.DebugAuth {
		return callers.LoopbackOnly, nil
	}
	config, err := apiserver.LoadConfig(s.Cluster.Kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--debug-auth: %w; pass --kubeconfig FILE, or run usher as a pod with the token of its service account", err)
	}
	client, err := apiserver.New(config)
	if err != nil {
		return nil, fmt.Errorf("--debug-auth: %w", err)
	}
	return callers.NewReviews(client.Create, s.Log).Protect, nil
}

// debugPages returns the pages under /debug.
func (s *service) debugPages() *http.ServeMux {
	mux := http.NewServeMux()
	for _, running := range s.instance.Running {
		for path, page := range running.Debug {
			mux.Handle(path, page)
		}
	}
	if s.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
