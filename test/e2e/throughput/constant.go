package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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
