package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// Faults that clients cause, who post to usher itself.

// malformed are bodies that are no reviews. Each is cut off at random, too.
var malformed = []string{"", "{", "null", "[]", `{"kind": "AdmissionReview"}`, strings.Repeat("[", 2000), strings.Repeat("\x00", 2000),
	`{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": null}`,
	`{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "kind": {"version": "v1", "kind": "Pod"}, "object": 7}}`}

// sendMalformed posts a million bodies on 16 connections. None may be answered as a review.
func sendMalformed(ctx context.Context, w *world) error {
	const all, connections = 1_000_000, 16
	var left atomic.Int64
	left.Store(all)
	return w.flood(ctx, connections, func(post func([]byte) (int, error)) error {
		for left.Add(-1) >= 0 && ctx.Err() == nil {
			body := malformed[rand.IntN(len(malformed))]
			status, err := post([]byte(body[:len(body)-rand.IntN(len(body)+1)/2]))
			if err != nil || status < 400 || status >= 500 && status != http.StatusServiceUnavailable {
				return fmt.Errorf("%.60q is answered with %d: %w", body, status, err)
			}
		}
		return nil
	})
}

// sendBigPods posts reviews of 250 KB pods for ten seconds. usher may refuse some because of too much load, with 503.
func sendBigPods(ctx context.Context, w *world) error {
	review, err := bigReview()
	if err != nil {
		return err
	}
	until := time.Now().Add(10 * time.Second)
	return w.flood(ctx, 64, func(post func([]byte) (int, error)) error {
		for time.Now().Before(until) && ctx.Err() == nil {
			if status, err := post(review); err != nil || status != http.StatusOK && status != http.StatusServiceUnavailable {
				return fmt.Errorf("a review of a 250 KB pod is answered with %d: %w", status, err)
			}
		}
		return nil
	})
}

// bigReview returns a review of a pod with many variables.
func bigReview() ([]byte, error) {
	env := make([]kubetest.Object, 0, 4000)
	for i := range cap(env) {
		env = append(env, kubetest.Object{"name": fmt.Sprintf("VARIABLE_%04d", i), "value": strings.Repeat("v", 24)})
	}
	pod := podNamed("big")
	pod["spec"] = kubetest.Object{"containers": []kubetest.Object{{"name": "c", "image": "pause", "env": env}}}
	return json.Marshal(kubetest.Object{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": kubetest.Object{
		"uid": "big", "operation": "CREATE", "namespace": failing, "kind": kubetest.Object{"version": "v1", "kind": "Pod"},
		"resource": kubetest.Object{"version": "v1", "resource": "pods"}, "object": pod}})
}

// flood runs senders, each of which posts on a connection of its own, until all have ended.
func (w *world) flood(ctx context.Context, connections int, send func(post func([]byte) (int, error)) error) error {
	bundle, err := base64.StdEncoding.DecodeString(w.stored(ctx, "usher-tls", "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	var running sync.WaitGroup
	failed := make([]error, connections)
	for i := range connections {
		running.Go(func() {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
			failed[i] = send(func(body []byte) (int, error) { return post(ctx, client, w.usher.URL+"/mutate-pods", body) })
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
