package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/certs"
	"usher.dev/usher/cluster"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/validators"
)

// podSuite is a suite with one route, as another program may have.
func podSuite() suite.Suite {
	return suite.Suite{Name: "pods",
		Collections: func(suite.Options) []cluster.Declared {
			return []cluster.Declared{cluster.Namespaces, cluster.LimitRanges}
		},
		Routes: func(e suite.Env) []admit.Route {
			return []admit.Route{{Path: "/validate-pods", Suite: "pods", For: admit.Pods(admissionv1.Create),
				Chain: suite.Validate(e, admit.AsPod, validators.Pods)}}
		}}
}

// writeFile writes a file into a new directory, and returns both.
func writeFile(t *testing.T, name, content string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// TestRun: another program can run a server with suites of its own, and end it. The policy and the labels of a namespace
// in the cluster files decide.
func TestRun(t *testing.T) {
	_, policy := writeFile(t, "policy.yaml", "names: {denied: [offensive]}\n"+
		"overrides: [{name: apps, steps: [denied-names], namespaceSelector: {matchLabels: {team: apps}}, mode: 'off', until: 2099-12-31, reason: why}]\n")
	manifests, _ := writeFile(t, "namespaces.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: apps, labels: {team: apps}}}\n")
	serving, ended := make(chan Addresses, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- Run(ctx, Options{Suites: suite.List{podSuite()}, Version: "test",
			Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Config: policy, Cluster: suite.Source{Dir: manifests},
			Certificates: Certificates{StateDir: t.TempDir()}, Serving: func(at Addresses) { serving <- at }})
	}()
	var at Addresses
	select {
	case err := <-ended:
		t.Fatal(err)
	case at = <-serving:
	}
	client := clientFor(t, at.CAFile)
	for namespace, allowed := range map[string]bool{"default": false, "apps": true} {
		if got := post(t, client, "https://"+at.Reviews+"/validate-pods", namespace); got.Allowed != allowed {
			t.Errorf("namespace %s: allowed: %v, %+v", namespace, got.Allowed, got.Result)
		}
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNobodyCouldConnect: a profile without a handshake ends the start.
func TestNobodyCouldConnect(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	err := Run(ctx, Options{Suites: suite.List{podSuite()}, Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Serving: func(Addresses) { stop() },
		Certificates: Certificates{StateDir: t.TempDir(), Profile: certs.Profile{Curves: []tls.CurveID{1}}}})
	if err == nil || !strings.Contains(err.Error(), "--tls-curves: no client can connect") {
		t.Error(err)
	}
}

// clientFor returns a client that trusts the CA of a file.
func clientFor(t *testing.T, caFile string) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

// post posts a review of a pod, and returns the answer.
func post(t *testing.T, client *http.Client, url, namespace string) *admissionv1.AdmissionResponse {
	t.Helper()
	review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE", "namespace": "` + namespace + `",
 "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
 "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "offensive-pod"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}`
	answer, err := client.Post(url, "application/json", bytes.NewBufferString(review))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &got); err != nil || got.Response == nil {
		t.Fatalf("HTTP %d: %s", answer.StatusCode, body)
	}
	return got.Response
}
