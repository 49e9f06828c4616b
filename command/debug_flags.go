package command

import (
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/spf13/pflag"

	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/callers"
)

// debugFlags say what is under /debug on the operations listener, and who may read it.
type debugFlags struct {
	auth, pprof bool
}

func (o *debugFlags) addTo(set *pflag.FlagSet) {
	set.BoolVar(&o.auth, "debug-auth", false, "serve the pages under /debug on any address, to users who send a bearer token and may get the path (default: on loopback only)")
	set.BoolVar(&o.pprof, "pprof", false, "serve the profiles of the Go runtime under /debug/pprof/, to the same callers as the other pages under /debug")
}

// protection returns what protects the pages under /debug.
func (s *service) protection() (func(http.Handler) http.Handler, error) {
	if !s.debug.auth {
		return callers.LoopbackOnly, nil
	}
	config, err := apiserver.LoadConfig(s.clusterSource.kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--debug-auth: %w; pass --kubeconfig FILE, or run usher as a pod with the token of its service account", err)
	}
	client, err := apiserver.New(config)
	if err != nil {
		return nil, fmt.Errorf("--debug-auth: %w", err)
	}
	return callers.NewReviews(client.Create, s.log).Protect, nil
}

// debugPages returns the pages under /debug.
func (s *service) debugPages() *http.ServeMux {
	mux := http.NewServeMux()
	for _, suite := range s.suites {
		if suite.Debug == nil {
			continue
		}
		for path, page := range suite.Debug() {
			mux.Handle(path, page)
		}
	}
	if s.debug.pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
