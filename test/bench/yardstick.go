package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
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

// serveYardstick serves one of the two yardsticks until the process ends, with usher's certificate, limits and
// collectors. It writes its addresses to standard error in the format of usher.
func serveYardstick(name, certDir string) error {
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
	handler := answerConstant
	if name == plain {
		handler = answerPlain
	}
	failed := make(chan error, 2)
	go func() {
		failed <- newServer(handler).Serve(tls.NewListener(reviews, certs.TLSConfig(source.GetCertificate)))
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

// answerConstant reads the whole body but does not parse it.
func answerConstant(w http.ResponseWriter, r *http.Request) {
	if _, err := io.ReadAll(r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"5fad46fe-2cf1-49b4-a7e2-047d5777f6d8","allowed":true}}`)
}
