// Command constant is the least that a webhook can do: over TLS, it reads the body of a review and returns the same answer to
// all. bin/load measures usher beside it. It is a program of its own because what a program links costs it something with
// every review: its heap is larger, and is searched for garbage.
package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		_, _ = fmt.Fprintln(os.Stderr, "constant: the argument is a directory with tls.crt and tls.key")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Stderr); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "constant: %v\n", err)
		os.Exit(1)
	}
}

// serve serves until the process ends, with TLS as usher's. It writes its addresses in the format of usher.
func serve(certDir string, log io.Writer) error {
	pair, err := tls.LoadX509KeyPair(filepath.Join(certDir, "tls.crt"), filepath.Join(certDir, "tls.key"))
	if err != nil {
		return err
	}
	reviews, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	operations, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	go func() { failed <- newServer(answer).Serve(tls.NewListener(reviews, config)) }()
	go func() { failed <- newServer(metrics).Serve(operations) }()
	err = json.NewEncoder(log).Encode(map[string]string{"msg": "serving", "reviews": reviews.Addr().String(), "operations": operations.Addr().String()})
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

// answer reads the whole body but does not parse it.
func answer(w http.ResponseWriter, r *http.Request) {
	if _, err := io.ReadAll(r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"5fad46fe-2cf1-49b4-a7e2-047d5777f6d8","allowed":true}}`)
}

// metrics writes the two metrics that bin/load reads.
func metrics(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_, _ = fmt.Fprintf(w, "go_memstats_mallocs_total %d\ngo_memstats_alloc_bytes_total %d\n", m.Mallocs, m.TotalAlloc)
}
