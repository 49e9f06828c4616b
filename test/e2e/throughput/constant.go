package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// patchPath is where the constant webhook answers with a patch.
const patchPath = "/patch"

// serveConstant runs the constant webhook: it reads the body and allows. Only the uid is taken from the review, because the
// API server refuses an answer with another one. At patchPath the answer also has a patch that was prepared.
func serveConstant(args []string) error {
	set := flag.NewFlagSet("constant", flag.ContinueOnError)
	listen := set.String("listen", "", "address")
	certs := set.String("cert-dir", "", "directory with tls.crt and tls.key")
	patch := set.String("patch", "", "file with the patch")
	if err := set.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*patch)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", answerWith(""))
	mux.HandleFunc(patchPath, answerWith(`,"patchType":"JSONPatch","patch":"`+base64.StdEncoding.EncodeToString(text)+`"`))
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 35 * time.Second,
		WriteTimeout: 40 * time.Second, IdleTimeout: 2 * time.Minute}
	return server.ListenAndServeTLS(filepath.Join(*certs, "tls.crt"), filepath.Join(*certs, "tls.key"))
}

func answerWith(more string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"%s","allowed":true%s}}`, uidOf(body), more)
	}
}

// uidOf returns the uid of a review as the API server writes it: the first one is the request's.
func uidOf(body []byte) []byte {
	_, after, _ := bytes.Cut(body, []byte(`"uid":"`))
	uid, _, _ := bytes.Cut(after, []byte(`"`))
	return uid
}

// patchOf returns the patch of a webhook's answer.
func patchOf(answer []byte) ([]byte, error) {
	var review struct {
		Response struct {
			Allowed bool
			Patch   []byte
		}
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return nil, err
	}
	if !review.Response.Allowed || len(review.Response.Patch) == 0 {
		return nil, errors.New("usher allows the pod of the measurement with a patch; it does not now")
	}
	return review.Response.Patch, nil
}

// startConstant starts the constant webhook with usher's certificate, and with the patch that usher makes of the pod.
func (w *world) startConstant(ctx context.Context, at ports) error {
	patch, err := w.ushersPatch(ctx)
	if err != nil {
		return err
	}
	file := filepath.Join(w.cluster.Dir(), "patch.json")
	if err := os.WriteFile(file, patch, 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w.constant, err = w.cluster.StartProgram("constant", self, "constant", "-listen="+address(at.constant),
		"-cert-dir="+filepath.Dir(w.core.CAFile), "-patch="+file)
	return err
}

// ushersPatch posts a review of the pod, as the API server would store it, to usher.
func (w *world) ushersPatch(ctx context.Context) ([]byte, error) {
	pod, err := w.admin.Do(ctx, "POST", podsPath(none)+"?dryRun=All", "application/json", w.pod.named("probe"))
	if err == nil {
		err = pod.Err()
	}
	if err != nil {
		return nil, err
	}
	text, err := w.post(ctx, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE","namespace":"`+namespaceOf(none)+
		`","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"object":`+string(bytes.TrimSpace(pod.Body))+`}}`)
	if err != nil {
		return nil, err
	}
	return patchOf(text)
}

// post posts a review to usher, and returns the answer.
func (w *world) post(ctx context.Context, review string) ([]byte, error) {
	ca, err := os.ReadFile(w.core.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+w.core.Replicas[0].Reviews()+"/mutate-pods", strings.NewReader(review))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return send(&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: service + "." + service + ".svc"}}}, request)
}
