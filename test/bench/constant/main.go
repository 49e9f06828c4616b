// Command constant is the least that a webhook can do: over TLS, it reads the body of a review, and returns the same answer to
// all, with the review's uid. It is what usher is measured beside: bin/load sends it reviews, test/e2e/throughput lets a real API
// server call it. It is a program of its own because what a program links costs it something with every review: its heap is
// larger, and is searched for garbage.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
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
	if err := command(os.Args[1:], os.Stderr); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "constant: %v\n", err)
		os.Exit(1)
	}
}

// command serves until the process ends.
func command(args []string, log io.Writer) error {
	set := flag.NewFlagSet("constant", flag.ContinueOnError)
	listen := set.String("listen", "127.0.0.1:0", "address for reviews")
	file := set.String("patches", "", "a JSON object: for each path of a webhook that patches, its patch in base64")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() != 1 {
		return errors.New("the argument is a directory with tls.crt and tls.key")
	}
	patches, err := readPatches(*file)
	if err != nil {
		return err
	}
	return serve(*listen, set.Arg(0), patches, log)
}

// readPatches reads the patches by path. No file has none.
func readPatches(file string) (patches map[string][]byte, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &patches); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return patches, nil
}

// serve serves until the process ends, with TLS as usher's. It writes its addresses in the format of usher.
func serve(listen, certDir string, patches map[string][]byte, log io.Writer) error {
	pair, err := tls.LoadX509KeyPair(filepath.Join(certDir, "tls.crt"), filepath.Join(certDir, "tls.key"))
	if err != nil {
		return err
	}
	reviews, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	operations, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	go func() { failed <- newServer(answering(patches)).Serve(tls.NewListener(reviews, config)) }()
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

// answering returns a handler that reads the whole body, but does not parse it, and allows, with the patch of the path if it has
// one.
func answering(patches map[string][]byte) http.HandlerFunc {
	patched := map[string]string{}
	for path, patch := range patches {
		patched[path] = `,"patchType":"JSONPatch","patch":"` + base64.StdEncoding.EncodeToString(patch) + `"`
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"%s","allowed":true%s}}`,
			uidOf(body), patched[r.URL.Path])
	}
}

// uidOf returns the uid of a review as the API server writes it: the first one is the request's. The API server refuses an
// answer with another one.
func uidOf(body []byte) []byte {
	_, after, _ := bytes.Cut(body, []byte(`"uid":"`))
	uid, _, _ := bytes.Cut(after, []byte(`"`))
	return uid
}

// metrics writes the two metrics that bin/load reads.
func metrics(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_, _ = fmt.Fprintf(w, "go_memstats_mallocs_total %d\ngo_memstats_alloc_bytes_total %d\n", m.Mallocs, m.TotalAlloc)
}
