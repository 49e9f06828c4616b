package explain

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

// foreign is a mutating webhook that is not usher's. It remembers what it saw and sent, by the label id of the object.
type foreign struct {
	webhook string
	decide  func(object kubetest.Object) []operation

	mu   sync.Mutex
	sent map[string][]string // the patches, in order
	saw  map[string][]kubetest.Object
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from,omitempty"`
	Value any    `json:"value,omitempty"`
}

// register starts the webhook, and registers it for pods of a namespace under a name by which configurations are sorted.
func (f *foreign) register(ctx context.Context, t *testing.T, configuration, namespace, reinvocation string) {
	t.Helper()
	f.sent, f.saw = map[string][]string{}, map[string][]kubetest.Object{}
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	const path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	cluster.DeleteAfter(t, path+"/"+configuration)
	_, err := cluster.Admin().Create(ctx, path, fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": {"name": %q}, "webhooks": [{"name": %q, "clientConfig": {"url": %q, "caBundle": %q}, "reinvocationPolicy": %q,
		"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}],
		"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": %q}}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}]}`,
		configuration, f.webhook, server.URL, ca, reinvocation, namespace))
	must(t, err)
	probe := pod("probe-"+configuration, 1)
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
		_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All", probe)
		if err == nil && len(f.of("probe-"+configuration)) == 0 {
			return fmt.Errorf("the API server does not call the webhook yet")
		}
		return err
	}))
}

// of returns the objects that the webhook saw of an id.
func (f *foreign) of(id string) []kubetest.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.saw[id]
}

// patches returns the patches that the webhook sent for an id, without those that were empty.
func (f *foreign) patches(id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[id]
}

// ServeHTTP answers a review.
func (f *foreign) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID    string
			Object kubetest.Object
		}
	}
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &review)
	id := review.Request.Object.String("metadata", "labels", "id")
	response := kubetest.Object{"uid": review.Request.UID, "allowed": true}
	patch := f.decide(review.Request.Object)
	f.mu.Lock()
	f.saw[id] = append(f.saw[id], review.Request.Object)
	if len(patch) > 0 {
		text, _ := json.Marshal(patch)
		response["patchType"], response["patch"] = "JSONPatch", text
		f.sent[id] = append(f.sent[id], string(text))
	}
	f.mu.Unlock()
	raw, _ = json.Marshal(kubetest.Object{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
	_, _ = w.Write(raw)
}
