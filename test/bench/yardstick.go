package main

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"usher.dev/usher/certs"
)

// The names of the measured servers.
const (
	usher    = "usher"
	constant = "constant" // reads the body and returns a constant answer: the cost of HTTP and TLS
	plain    = "plain"    // decodes, copies, encodes twice and diffs, like most webhooks
	before   = "before"   // another binary of usher, to compare with
)

// servePlain serves the usual pipeline until the process ends, with usher's certificate, limits and collectors. It writes its
// addresses to standard error in the format of usher.
func servePlain(certDir string) error {
	source, err := certs.Open(certDir)
	if err != nil {
		return err
	}
	reviews, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ops, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() {
		failed <- newServer(answerPlain).Serve(tls.NewListener(reviews, certs.TLSConfig(source.GetCertificate, certs.Profile{})))
	}()
	go func() { failed <- newServer(metrics().ServeHTTP).Serve(ops) }()
	err = json.NewEncoder(os.Stderr).Encode(serving{Message: servingMessage, Reviews: reviews.Addr().String(), Operations: ops.Addr().String()})
	if err != nil {
		return err
	}
	return <-failed
}

// newServer returns a server with usher's limits.
func newServer(handler http.HandlerFunc) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 35 * time.Second, WriteTimeout: 40 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
	}
}

func metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
