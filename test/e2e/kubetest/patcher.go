package kubetest

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
)

// Patcher is a mutating webhook that answers with the JSON patch in the annotation "patch" of the object under review, or refuses if that is
// the word "deny". It remembers the last object that it saw of each name and operation.
type Patcher struct {
	t    *testing.T
	mu   sync.Mutex
	seen map[string]Object
}

// NewPatcher registers a patcher for a namespace, under a name by which configurations are sorted.
func (c *Cluster) NewPatcher(ctx context.Context, t *testing.T, name, namespace string) *Patcher {
	t.Helper()
	p := &Patcher{t: t, seen: map[string]Object{}}
	server := httptest.NewTLSServer(p)
	t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	const path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	c.DeleteAfter(t, path+"/"+name)
	if _, err := c.Admin().Create(ctx, path, fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": {"name": %q}, "webhooks": [{"name": "change.example.com", "clientConfig": {"url": %q, "caBundle": %q},
		"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods", "pods/status", "pods/exec"]}],
		"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": %q}}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}]}`,
		name, server.URL, ca, namespace)); err != nil {
		t.Fatal(err)
	}
	probe := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}`
	if err := Eventually(ctx, func(ctx context.Context) error {
		_, err := c.Admin().Create(ctx, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All", probe)
		if err == nil && p.Saw("CREATE", "probe") == nil {
			return fmt.Errorf("the API server does not call the webhook yet")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// Saw returns the last object of an operation and a name that the webhook was called with; nil if there was none.
func (p *Patcher) Saw(operation, name string) Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[operation+" "+name]
}

// ServeHTTP answers a review.
func (p *Patcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID, Name, Operation, SubResource string
			Object, OldObject                 Object
		}
	}
	raw, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(raw, &review); err != nil {
		p.t.Errorf("no review: %v", err)
	}
	object := review.Request.Object
	if object == nil {
		object = review.Request.OldObject
	}
	patch := object.String("metadata", "annotations", "patch")
	p.mu.Lock()
	p.seen[review.Request.Operation+" "+review.Request.Name] = object
	p.mu.Unlock()
	response := Object{"uid": review.Request.UID, "allowed": patch != "deny" && review.Request.SubResource != "exec"}
	if patch != "" && patch != "deny" {
		response["patchType"], response["patch"] = "JSONPatch", []byte(patch)
	}
	raw, _ = json.Marshal(Object{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
	_, _ = w.Write(raw)
}
