// Package doctor compares what usherctl doctor says with what a real API server does: which webhooks it calls for random
// requests, with random webhook configurations.
package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster  *kubetest.Cluster
	usherctl string // the path of the program
)

func TestMain(m *testing.M) {
	kubetest.Main(m, kubetest.Options{}, func(ctx context.Context, c *kubetest.Cluster) (err error) {
		cluster = c
		if usherctl, err = c.BuildUsherctl(ctx); err != nil {
			return err
		}
		return c.Apply(ctx, world)
	})
}

// users lists the senders of requests: both may do everything, and only bob may use gadgets.
var users = map[string][]string{"ann": {"dev", "system:authenticated"}, "bob": {"ops", "system:authenticated"}}

// world lists the objects that exist before the first request.
const world = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.doctor.test}
spec:
  group: doctor.test
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  scope: Namespaced
  versions:
  - &version
    name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}}
  - {<<: *version, name: v2, storage: false}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: use}
rules:
- {apiGroups: [doctor.test], resources: [gadgets], verbs: [use]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything}
subjects: [{kind: Group, name: dev}, {kind: Group, name: ops}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: use}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: use}
subjects: [{kind: Group, name: ops}]
---
apiVersion: v1
kind: Node
metadata: {name: n0, labels: {tier: a}}
---
apiVersion: v1
kind: Namespace
metadata: {name: red, labels: {team: red, tier: a}}
---
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {team: blue}}
---
apiVersion: v1
kind: Namespace
metadata: {name: bare}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: red}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: blue}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: bare}
`

var namespaces = []string{"red", "blue", "bare"}

// recorder is a webhook under many names. It allows everything, and remembers who was called for the users, and what
// the first one was sent.
type recorder struct {
	url, ca string
	mu      sync.Mutex
	called  map[string]bool
	review  json.RawMessage
}

// first is the webhook that the API server calls first, for every request.
const first = "first.doctor.test"

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{}
	server := httptest.NewTLSServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	r.ca = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return r
}

// ServeHTTP answers a review. The path is the name of the webhook.
func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, _ := io.ReadAll(req.Body)
	var review struct {
		Request struct {
			UID      string
			UserInfo struct{ Username string }
		}
	}
	_ = json.Unmarshal(raw, &review)
	name := strings.TrimPrefix(req.URL.Path, "/")
	r.mu.Lock()
	if _, ours := users[review.Request.UserInfo.Username]; ours || strings.HasPrefix(name, ready) {
		r.called[name] = true
		if name == first {
			r.review = raw
		}
	}
	r.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": map[string]any{"uid": review.Request.UID, "allowed": true}})
}

// during returns the names of the webhooks that are called while do runs, and the review that the first was sent.
func (r *recorder) during(do func()) (called map[string]bool, review json.RawMessage) {
	r.mu.Lock()
	r.called, r.review = map[string]bool{}, nil
	r.mu.Unlock()
	do()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.called, r.review
}

// ready begins the names of webhooks that show that a configuration is in use.
const ready = "ready-"

const group = "/apis/admissionregistration.k8s.io/v1/"

// register replaces the configurations, and waits until the API server uses all of them. They are removed when the test
// has ended.
func (r *recorder) register(ctx context.Context, t *testing.T, round int, configurations []kubetest.Object) {
	t.Helper()
	var wanted []string
	for i, c := range configurations {
		name := fmt.Sprintf("%s%d-%d.doctor.test", ready, round, i)
		wanted = append(wanted, name)
		c["webhooks"] = append(c["webhooks"].([]any), r.hook(name, kubetest.Object{
			"rules":           []any{kubetest.Object{"apiGroups": []any{"coordination.k8s.io"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"leases"}}},
			"matchConditions": []any{kubetest.Object{"name": "probe", "expression": `request.userInfo.username == "admin"`}}}))
		c = plain(c)
		path := group + strings.ToLower(c.String("kind")) + "s"
		if _, err := cluster.Admin().Patch(ctx, path+"/"+c.String("metadata", "name")+"?fieldManager=test&force=true", kubetest.ApplyPatch, c); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			cluster.DeleteAfter(t, path+"/"+c.String("metadata", "name"))
		}
	}
	lease := kubetest.Object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": kubetest.Object{"name": "probe"}}
	if err := kubetest.Eventually(ctx, func(ctx context.Context) (err error) {
		called, _ := r.during(func() {
			_, err = cluster.Admin().Create(ctx, "/apis/coordination.k8s.io/v1/namespaces/bare/leases?dryRun=All", lease)
		})
		if err == nil && !slices.ContainsFunc(wanted, func(name string) bool { return !called[name] }) {
			return nil
		}
		return fmt.Errorf("round %d is not in use yet: %v, %w", round, called, err)
	}); err != nil {
		t.Fatal(err)
	}
}

// hook completes a webhook.
func (r *recorder) hook(name string, w kubetest.Object) kubetest.Object {
	w["name"], w["sideEffects"], w["admissionReviewVersions"] = name, "None", []any{"v1"}
	w["clientConfig"] = kubetest.Object{"url": r.url + "/" + name, "caBundle": r.ca}
	return w
}
