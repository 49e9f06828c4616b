package probe

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

// shape is a handler as that of a public project was when a fault was reported: written by us, from the report.
type shape struct {
	report string
	tests  []string // that must fail
	// careless handlers read a request that is not there, and a body that is none.
	careless bool
	decide   func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

func allow(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{UID: q.UID, Allowed: true}
}

// patching returns an answer with a patch.
func patching(q *admissionv1.AdmissionRequest, operations ...map[string]any) *admissionv1.AdmissionResponse {
	patch, _ := json.Marshal(operations)
	of := admissionv1.PatchTypeJSONPatch
	return &admissionv1.AdmissionResponse{UID: q.UID, Allowed: true, Patch: patch, PatchType: &of}
}

// podOf returns the pod of a request; nil for others.
func podOf(q *admissionv1.AdmissionRequest) *corev1.Pod {
	pod := &corev1.Pod{}
	if q.Kind.Kind != "Pod" || q.Operation != "CREATE" || json.Unmarshal(q.Object.Raw, pod) != nil {
		return nil
	}
	return pod
}

var shapes = map[string]shape{
	"no nil check of the request": {report: "kyverno/kyverno#15251", tests: []string{"no-request", "null"}, careless: true, decide: allow},
	"no uid": {report: "kubernetes/ingress-nginx#4916", tests: []string{"uid"}, decide: func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}},
	"an annotation added to none": {report: "SAP-archive/karydia#83", tests: []string{"patch-applies"}, decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if pod := podOf(q); pod == nil || pod.Annotations["seccomp"] != "" {
			return allow(q)
		}
		return patching(q, map[string]any{"op": "add", "path": "/metadata/annotations/seccomp", "value": "default"})
	}},
	"an object encoded by the types of an old API": {report: "piraeusdatastore/piraeus-operator#1025", tests: []string{"unknown-fields"}, decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		pod := podOf(q)
		if pod == nil {
			return allow(q)
		}
		pod.Spec.SchedulerName = "linstor"
		return patching(q, map[string]any{"op": "replace", "path": "/spec", "value": pod.Spec})
	}},
	"variables appended again": {report: "kserve/kserve#4332", tests: []string{"idempotent", "rounds"}, decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if podOf(q) == nil {
			return allow(q)
		}
		return patching(q, map[string]any{"op": "add", "path": "/spec/containers/0/env/-", "value": corev1.EnvVar{Name: "PORT", Value: "8080"}})
	}},
	"a volume recognized by the name of the pod": {report: "Azure/azure-workload-identity#1744", tests: []string{"rounds"}, decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		pod := podOf(q)
		if pod == nil {
			return allow(q)
		}
		name := "token-" + pod.Name
		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }) {
			return allow(q)
		}
		return patching(q, map[string]any{"op": "add", "path": "/spec/volumes/-", "value": map[string]any{"name": name, "emptyDir": map[string]any{}}})
	}},
	"a nil map": {report: "kubeslice/worker-operator#78", tests: []string{"nulls"}, decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if pod := podOf(q); pod != nil {
			pod.Annotations["seen"] = "true"
		}
		return allow(q)
	}},
	"a DELETE without an oldObject": {report: "openebs-archive/maya#967", tests: []string{"no-old-object"}, decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if q.Operation == "DELETE" && q.OldObject.Raw == nil {
			panic("nil PVC")
		}
		return allow(q)
	}},
	"a DELETE, whose object is null": {report: "DataDog/datadog-agent#50864", tests: []string{"delete"}, decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		var object map[string]any
		_ = json.Unmarshal(q.Object.Raw, &object)
		if _, is := object["metadata"].(map[string]any); !is {
			panic("no such key: metadata")
		}
		return allow(q)
	}},
	"no requestResource": {report: "cert-manager/cert-manager#9092", tests: []string{"sparse"}, decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if q.RequestResource.Resource == "pods" {
			return allow(q)
		}
		return allow(q)
	}},
}

func (s shape) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 7<<20))
	var review admissionv1.AdmissionReview
	if err != nil || json.Unmarshal(body, &review) != nil || !s.careless && (review.Request == nil || review.Kind != "AdmissionReview") {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response, review.Request = s.decide(review.Request), nil
	_ = json.NewEncoder(w).Encode(review)
}

// serving serves a handler, and returns it as a webhook with the samples that are shipped.
func serving(t *testing.T, handler http.Handler) *registered {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ReadTimeout, server.Config.ErrorLog = 5*time.Second, log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	h, err := unregistered(server.URL+"/mutate", true, place{roots: roots, serverName: "example.com"})
	if err == nil {
		err = h.addSamples(t.Context(), nil, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	return h
}

// TestShapes: the faults of the handlers of ten public projects are found, by the test that is about each.
func TestShapes(t *testing.T) {
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serving(t, s)
			failed := map[string]string{}
			Run(t.Context(), &h.Hook, Tests(), Bound{400, time.Minute, 10 * time.Second}, func(res Result) {
				if len(res.Failures) > 0 {
					failed[res.Test.Name] = res.Failures[0].Text
				}
			})
			for _, test := range s.tests {
				if failed[test] == "" {
					t.Errorf("%s: %s does not fail", s.report, test)
				}
			}
			if len(failed) > len(s.tests)+3 {
				t.Errorf("%s: %d tests fail: %v", s.report, len(failed), failed)
			}
		})
	}
}
