package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/certs"
	"usher.dev/usher/server/connections"
)

// How many connections may be open at once. Five API servers hardly have 200 reviews under way each, and a thousand idle
// connections take less memory than bodies may: docs/operations.md has the numbers. Operations are probes and scrapes.
const defaultMaxConnections, maxOperationsConnections = 1000, 100

// maxScrapes is how many requests for metrics, each of which takes milliseconds of CPU time, are answered at the same
// time; others get a 503.
const maxScrapes = 4

// open opens a listener with a bound and the metrics of its connections.
func (s *service) open(name, address string, most int) (*connections.Listener, error) {
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
			Help: "Idle connections that were closed to make room for new ones.", ConstLabels: label},
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
	config := certs.TLSConfig(s.certificate)
	if s.callerSource.clientCA != "" {
		config.ClientAuth = tls.RequestClientCert // the gate checks it with each request, and answers
	}
	return tls.NewListener(l, config)
}

// drain: not ready, go on answering for the delay, then accept no more and answer what is under way or still sent.
// http.Server.Shutdown would not do: it drops a request that it reads after it began.
func (s *service) drain(reviews *connections.Listener, server, operations *http.Server) {
	s.log.WithField("delay", s.shutdownDelay.String()).Info("draining")
	s.health.Drain()
	time.Sleep(s.shutdownDelay)
	ctx, cancel := context.WithTimeout(context.Background(), s.drainTime)
	defer cancel()
	for _, end := range []func(context.Context) error{reviews.Drain, operations.Shutdown} {
		if err := end(ctx); err != nil {
			s.log.WithError(err).Warn("requests under way were cut off")
		}
	}
	_, _ = server.Close(), operations.Close()
	s.closeAudit(ctx)
	s.log.Info("stopped")
}
