package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"usher.dev/usher/e2e/kubetest"
)

// buildConstant builds the constant webhook, which is a program of test/bench.
func (w *world) buildConstant(ctx context.Context) (string, error) {
	file := filepath.Join(w.cluster.Dir(), "bin-constant")
	_, err := w.cluster.RunProgram(ctx, "env", "HOME="+os.Getenv("HOME"), "CGO_ENABLED=0", "go", "build", "-C", "test/bench", "-trimpath", "-o", file, "./constant")
	return file, err
}

// startConstants starts a constant webhook beside each usher, with its certificate, and with the patches that it makes of the pod.
func (w *world) startConstants(ctx context.Context, at ports) error {
	binary, err := w.buildConstant(ctx)
	if err != nil {
		return err
	}
	w.constantCore, err = w.startConstant(ctx, binary, constantCore, core, w.core, at.constantCore, "/mutate-pods")
	if err != nil {
		return err
	}
	w.constantBoth, err = w.startConstant(ctx, binary, constantBoth, both, w.both, at.constantBoth, "/mutate-pods", "/mutate-pod")
	return err
}

func (w *world) startConstant(ctx context.Context, binary, way, twin string, of *kubetest.Usher, port int, paths ...string) (*kubetest.Process, error) {
	patches, err := w.ushersPatches(ctx, of, twin, paths)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(patches)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.cluster.Dir(), way+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return w.cluster.StartProgram(way, binary, "-listen="+address(port), "-patches="+file, filepath.Dir(of.CAFile))
}

// ushersPatches asks usher once, at each path in turn, what it makes of the pod as the API server hands it over.
func (w *world) ushersPatches(ctx context.Context, of *kubetest.Usher, way string, paths []string) (map[string][]byte, error) {
	created, err := w.admin.Do(ctx, "POST", podsPath(way)+"?dryRun=All", "application/json", w.pod.named("probe"))
	if err == nil {
		err = created.Err()
	}
	if err != nil {
		return nil, err
	}
	patches, pod := map[string][]byte{}, bytes.TrimSpace(created.Body)
	for _, path := range paths {
		answer, err := post(ctx, of, path, reviewOf(namespaceOf(way), pod))
		if err != nil {
			return nil, err
		}
		if patches[path], err = patchOf(answer); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if pod, err = patched(pod, patches[path]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return patches, nil
}

// reviewOf returns the review of a new pod.
func reviewOf(namespace string, pod []byte) string {
	return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE","namespace":"` + namespace +
		`","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"object":` + string(pod) + `}}`
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

func patched(pod, patch []byte) ([]byte, error) {
	edits, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return edits.Apply(pod)
}

// post posts a review to usher, and returns the answer.
func post(ctx context.Context, to *kubetest.Usher, path, review string) ([]byte, error) {
	ca, err := os.ReadFile(to.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+to.Replicas[0].Reviews()+path, strings.NewReader(review))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return send(&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: service + "." + service + ".svc"}}}, request)
}
