// Command webhook is an admission webhook: the API server asks it about new pods and about the status of nodes before it stores them.
package main

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"example.com/webhook/certs"
	"example.com/webhook/handlers"
	"example.com/webhook/mutators"
	"example.com/webhook/validators"
)

// routes returns the paths: for each, the requests that it handles, and its steps. deploy/webhooks.yaml registers them.
// The API server asks everyone who changes an object before everyone who checks it, so a path does one of the two.
func routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /mutate-pods", handlers.Review("CREATE pods", mutators.Pods))
	mux.Handle("POST /validate-pods", handlers.Review("CREATE pods", validators.Pods))
	mux.Handle("POST /mutate-nodes", handlers.Review("UPDATE nodes/status", mutators.Nodes))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	return mux
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8443", "address to serve on; the API server speaks only HTTPS")
	dir := flag.String("certs", ".certs", "folder of tls.crt and tls.key; made, with ca.crt, if there is no tls.crt")
	only := flag.Bool("make-certs", false, "make the certificate, and end")
	flag.Parse()
	if err := certs.Ensure(*dir); err != nil || *only {
		end(err)
		return
	}
	// Time limits, because anyone may connect. The API server waits 10 seconds, and at most 30.
	server := &http.Server{Addr: *listen, Handler: routes(), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	ended, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		logrus.Infof("listening on https://%s", *listen)
		end(server.ListenAndServeTLS(filepath.Join(*dir, "tls.crt"), filepath.Join(*dir, "tls.key")))
	}()
	<-ended.Done()
	// The kubelet sends SIGTERM and, after 30 seconds, SIGKILL. A review that is cut off may be a pod that is not created.
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	end(server.Shutdown(grace))
}

func end(err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		logrus.Fatal(err)
	}
}
