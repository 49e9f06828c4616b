package oracle

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/usherctl/engine"
)

// answers are the answers of webhooks by the ends of their paths.
var answers = map[string]func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse){
	"allow": func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse) {},
	"deny": func(_ *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
		a.Allowed, a.Result = false, &metav1.Status{Message: "not here", Code: http.StatusTeapot, Reason: "Teapot"}
	},
	"deny-plainly": func(_ *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) { a.Allowed = false },
	"warn": func(_ *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
		a.Warnings = []string{"careful", strings.Repeat("long ", 100), "careful"}
		a.AuditAnnotations = map[string]string{"a": "b"}
	},
	"label":    patches(`[{"op":"add","path":"/metadata/labels","value":{"hooked":"yes"}}]`),
	"sidecar":  patches(`[{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"s"}}]`),
	"invalid":  patches(`[{"op":"replace","path":"/metadata/name","value":"Not_Valid"}]`),
	"unknown":  patches(`[{"op":"add","path":"/unknown","value":1}]`),
	"absent":   patches(`[{"op":"remove","path":"/metadata/labels/absent"}]`),
	"no-patch": patches(`{"op":"add"}`),
	"no-patch-type": func(_ *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
		a.Patch = []byte(`[]`)
	},
	"another-uid": func(_ *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) { a.UID = "another" },
	"count": func(r *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
		var u unstructured.Unstructured
		_ = json.Unmarshal(r.Object.Raw, &u.Object)
		text, _ := json.Marshal([]object{{"op": "add", "path": "/metadata/annotations", "value": object{"calls": u.GetAnnotations()["calls"] + "x"}}})
		patches(string(text))(r, a)
	},
}

func patches(text string) func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse) {
	return func(r *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		if r.Operation != admissionv1.Delete {
			a.Patch, a.PatchType = []byte(text), &jsonPatch
		}
	}
}

// answered answers a review at a path; it depends on both only.
func answered(at string, review []byte) (code int, answer []byte) {
	switch path.Base(at) {
	case "error":
		return http.StatusInternalServerError, []byte("broken")
	case "not-found":
		return http.StatusNotFound, []byte("404 page not found")
	case "garbage":
		return http.StatusOK, []byte("no JSON")
	case "empty":
		return http.StatusOK, []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`)
	}
	var r admissionv1.AdmissionReview
	if err := json.Unmarshal(review, &r); err != nil {
		return http.StatusBadRequest, []byte(err.Error())
	}
	r.Response = &admissionv1.AdmissionResponse{UID: r.Request.UID, Allowed: true}
	answers[path.Base(at)](r.Request, r.Response)
	r.Request = nil
	answer, _ = json.Marshal(r)
	return http.StatusOK, answer
}

// endpoint serves the answers, and returns its address and its certificate.
func endpoint(t *testing.T, answer func(path string, review []byte) (int, []byte)) (url string, ca []byte) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review, _ := io.ReadAll(r.Body)
		code, body := answer(r.URL.Path, review)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// webhook is a random configuration of mutating or validating webhooks for a Namespace of its own.
type webhook struct {
	drawer
	name   string
	mutate bool
	url    string
	ca     []byte
}

func (w webhook) kind() string {
	if w.mutate {
		return "MutatingWebhookConfiguration"
	}
	return "ValidatingWebhookConfiguration"
}

var (
	mutating = []string{"allow", "deny", "warn", "label", "sidecar", "count", "count", "invalid", "unknown", "absent", "no-patch", "no-patch-type",
		"another-uid", "error", "garbage", "empty"}
	validating = []string{"allow", "deny", "deny-plainly", "warn", "label", "another-uid", "error", "not-found", "garbage", "empty"}
)

func (w webhook) objects() []*unstructured.Unstructured {
	var all []any
	for i := range 1 + w.IntN(3) {
		all = append(all, w.one(i))
	}
	return []*unstructured.Unstructured{
		made("v1", "Namespace", w.name, "", object{"metadata": object{"labels": object{"team": one(w.drawer, "a", "b")}}}),
		made("v1", "ServiceAccount", "default", w.name, object{}),
		made("admissionregistration.k8s.io/v1", w.kind(), w.name, "", object{"webhooks": all}),
	}
}

func (w webhook) one(i int) object {
	paths := validating
	if w.mutate {
		paths = mutating
	} else if i > 0 {
		paths = []string{"allow", "warn"} // of several that refuse, the API server tells the one that does so first
	}
	rule := ruleOf("configmaps", "pods", "deployments")
	rule["operations"], rule["scope"] = list(one(w.drawer, "CREATE", "*")), one(w.drawer, "*", "Namespaced", "Cluster", "*")
	if w.chance(20) {
		rule["resources"] = list(one(w.drawer, "*", "*/*", "pods/*"))
	}
	selectors := list(object{"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(w.name)})
	if w.chance(20) {
		selectors = append(selectors, object{"key": "team", "operator": "In", "values": list("a")})
	}
	hook := object{
		"name": fmt.Sprintf("hook%d.%s.example.com", i, w.name), "rules": list(rule),
		"sideEffects":             one(w.drawer, "None", "None", "None", "NoneOnDryRun"),
		"admissionReviewVersions": one(w.drawer, list("v1"), list("v1", "v1beta1"), list("unknown", "v1beta1")),
		"failurePolicy":           one(w.drawer, "Fail", "Ignore"),
		"clientConfig":            object{"url": w.url + "/" + one(w.drawer, paths...), "caBundle": base64.StdEncoding.EncodeToString(w.ca)},
		"namespaceSelector":       object{"matchExpressions": selectors}, "matchPolicy": one(w.drawer, "Exact", "Equivalent"),
	}
	if w.chance(20) {
		hook["objectSelector"] = object{"matchLabels": object{"app": "web"}}
	}
	if w.chance(30) {
		hook["matchConditions"] = list(object{"name": "first", "expression": one(w.drawer, conditions...)})
	}
	if w.mutate {
		hook["reinvocationPolicy"] = one(w.drawer, "Never", "IfNeeded")
	}
	return hook
}

// webhookOf returns answers as the engine asks for them.
func webhookOf(answer func(path string, review []byte) (int, []byte)) engine.Webhook {
	return func(_ context.Context, w engine.Registered, review []byte) (engine.Answer, error) {
		code, body := answer(w.Path, review)
		return engine.Answer{Code: code, Body: body}, nil
	}
}

func TestWebhooks(t *testing.T) {
	s := theServer(t)
	t.Logf("USHER_ORACLE_SEED=%d", seed)
	url, ca := endpoint(t, answered)
	var requests []drawn
	for i := range draws / 8 {
		for _, mutate := range []bool{false, true} {
			w := webhook{newDrawer(seed, 4_000_000+i), fmt.Sprintf("webhook%t%d", mutate, i), mutate, url, ca}
			for _, o := range w.objects() {
				if err := s.store(o); err != nil {
					t.Fatal(err)
				}
				if o.GetKind() == w.kind() {
					defer s.remove(t, o)
				}
			}
			requests = append(requests, requestsIn(w.drawer, w.name, w.kind())...)
		}
	}
	if err := s.called(t, url, ca, "last"); err != nil {
		t.Fatal(err)
	}
	cluster, err := s.list()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, s, engine.Cluster{Objects: cluster, Webhook: webhookOf(answered)}, requests)
}

// called returns when the webhooks that the API server stores are called: when the last ones are.
func (s *server) called(t *testing.T, url string, ca []byte, name string) error {
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		labels := object{"last": name + kind[:1]}
		hook := object{"name": "last.example.com", "rules": list(ruleOf("configmaps")), "sideEffects": "None",
			"admissionReviewVersions": list("v1"),
			"clientConfig":            object{"url": url + "/last/deny", "caBundle": base64.StdEncoding.EncodeToString(ca)},
			"objectSelector":          object{"matchLabels": labels}}
		configuration := made("admissionregistration.k8s.io/v1", kind, "zz-"+name, "", object{"webhooks": list(hook)})
		if err := s.store(configuration); err != nil {
			return err
		}
		t.Cleanup(func() { s.remove(t, configuration) })
		if err := eventually(func() error {
			a, err := s.judge(request(made("v1", "ConfigMap", "a", "default", object{"metadata": object{"labels": labels}}), "").Request)
			if err == nil && a.Code < 300 {
				err = fmt.Errorf("%s is not called", kind)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
