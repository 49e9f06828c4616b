package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"usher.dev/usher/certs"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/connections"
)

// DefaultMaxConnections and maxOperationsConnections limit how many connections are open at once. Five API servers hardly
// have 200 reviews under way each, and a thousand idle connections take less memory than bodies may: docs/operations.md has
// the numbers. Operations are probes and scrapes.
const DefaultMaxConnections, maxOperationsConnections = 1000, 100

// listen opens a listener with a bound and the metrics of its connections.
func (s *service) listen(name, address string, most int) (*connections.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, portInUse(name, address)
	}
	if err != nil {
		return nil, err
	}
	bounded, label := connections.Bound(l.(*net.TCPListener), most), prometheus.Labels{"listener": name}
	s.metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "usher_connections", Help: "Open connections.", ConstLabels: label},
			func() float64 { return float64(bounded.Open()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "usher_connections_evicted_total",
			Help: "Connections that were closed to make room for others.", ConstLabels: label},
			func() float64 { return float64(bounded.Evicted()) }))
	return bounded, nil
}

// portInUse says how to choose another port.
func portInUse(name, address string) error {
	flag, variable := "--listen", "LISTEN"
	if name == "operations" {
		flag, variable = "--ops-listen", "OPS"
	}
	return fmt.Errorf("%s %s: another process listens there; choose another port, such as `make run %s=127.0.0.1:PORT`", flag, address, variable)
}

// secured is a listener with TLS, unless there is none. http.Server.ServeTLS would offer HTTP/2 again.
func (s *service) secured(l net.Listener) net.Listener {
	if s.certificate == nil {
		return l
	}
	config := certs.TLSConfig(s.certificate, s.Certificates.Profile)
	if s.Callers.ClientCA != "" {
		config.ClientAuth = tls.RequestClientCert // the gate checks it with each request, and answers
	}
	return tls.NewListener(l, config)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.live.Load()).ServeHTTP(w, r) }

// listenAndServe opens both listeners, serves, and drains when ctx ends.
func (s *service) listenAndServe(ctx context.Context) error {
	reviews, err := s.listen("reviews", s.Listen, s.MaxConnections)
	if err != nil {
		return err
	}
	defer func() { _ = reviews.Close() }()
	if s.Callers.Auth == callers.Enforce {
		reviews.CutUnproven()
	}
	ops, err := s.listen("operations", s.OpsListen, maxOperationsConnections)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	ops.CutBusy() // or clients that do not read their answers would keep the kubelet's probes waiting
	pages, err := s.operations()
	if err != nil {
		return err
	}
	errorLog := stdlog.New(newErrorLog(s.Log), "", 0)
	server, operations := newReviewServer(s, reviews, errorLog), newServer(pages, ops, errorLog)
	operations.SetKeepAlivesEnabled(false) // a client that sends a thousand requests in a row takes turns with the kubelet's probes
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(s.secured(reviews)) }()
	go func() { failed <- operations.Serve(ops) }()
	s.announce(Addresses{reviews.Addr().String(), ops.Addr().String(), s.caFile})
	select {
	case err := <-failed:
		s.fail()
		return err
	case <-ctx.Done():
	}
	s.drain(reviews, server, operations)
	return nil
}

// announce says that connections are accepted.
func (s *service) announce(at Addresses) {
	if s.Serving != nil {
		s.Serving(at)
	}
	s.Log.WithFields(logrus.Fields{"reviews": at.Reviews, "operations": at.Operations, "version": s.Version}).Info("serving")
}

// newServer has time limits beyond what the API server ever waits (30 s).
func newServer(handler http.Handler, l *connections.Listener, errors *stdlog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ConnState: l.State, ErrorLog: errors,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 35 * time.Second, WriteTimeout: 40 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
	}
}

// newReviewServer lets connections wait for the first review as long as for the next one, longer than API servers keep them.
func newReviewServer(handler http.Handler, l *connections.Listener, errors *stdlog.Logger) *http.Server {
	server := newServer(givingWay(l, handler), l, errors)
	l.KeepUnused(server.IdleTimeout)
	server.ConnContext = l.Context
	return server
}

// givingWay ends connections with their answers while many are open, so that new ones find room.
func givingWay(l *connections.Listener, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.Crowded() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// drain: not ready, go on answering for the delay, then accept no more and answer what is under way or still sent.
// http.Server.Shutdown would not do: it drops a request that it reads after it began.
func (s *service) drain(reviews *connections.Listener, server, operations *http.Server) {
	s.Log.WithField("delay", s.ShutdownDelay.String()).Info("draining")
	s.health.draining.Store(true)
	time.Sleep(s.ShutdownDelay)
	ctx, cancel := context.WithTimeout(context.Background(), s.ShutdownGrace)
	defer cancel()
	for _, end := range []func(context.Context) error{reviews.Drain, operations.Shutdown} {
		if err := end(ctx); err != nil {
			s.Log.WithError(err).Warn("requests under way were cut off")
		}
	}
	_, _ = server.Close(), operations.Close()
	s.end(ctx)
	s.Log.Info("stopped")
}

// fail ends what must not be lost when a server has failed.
func (s *service) fail() {
	ctx, cancel := context.WithTimeout(context.Background(), s.ShutdownGrace)
	defer cancel()
	s.end(ctx)
}

// maxRecords and maxEnd bound, after --shutdown-grace, the time that records and the suites may take. With the last lines of the
// log they are less than 3 s: docs/operations.md, Shutdown.
const maxRecords, maxEnd = 300 * time.Millisecond, 2 * time.Second

// end ends, after the last review, what must not be lost, and what others wait for.
func (s *service) end(grace context.Context) {
	deadline, _ := grace.Deadline()
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(maxRecords))
	defer cancel()
	s.closeAudit(ctx)
	s.closed(ctx)
	s.endSuites()
}

// endSuites ends what others wait for.
func (s *service) endSuites() {
	ctx, cancel := context.WithTimeout(context.Background(), maxEnd)
	defer cancel()
	s.instance.End(ctx)
}
