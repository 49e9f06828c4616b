package process

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"usher.dev/usher/test/harness"
	"usher.dev/usher/test/reviews"
)

// BenchmarkRoutes measures the core suite's routes on reviews of realistic size, changed and unchanged, from bytes to
// bytes, without the network and the log. `make load` measures the service as a whole.
func BenchmarkRoutes(b *testing.B) {
	mux := sampleMux(b)
	for _, review := range reviews.Core() {
		b.Run(review.Name, func(b *testing.B) { benchmark(b, mux, review.Path, review.Body) })
	}
}

// BenchmarkColocation does the same for the colocation suite, on its samples and on the production pod of 20 KB.
func BenchmarkColocation(b *testing.B) {
	mux := sampleMux(b)
	for _, sample := range []string{
		"mutate-pod/colocation-profile", "mutate-pod/colocation-profile-unmatched", "validate-pod/qos-priority",
		"validate-pod-binding/binding-denied", "mutate-reservation/reservation-profile", "validate-reservation/reservation",
		"validate-clustercolocationprofile/profile-good", "mutate-pod/multi-quota-tree", "validate-pod/evaluate-quota-room", "validate-pod/evaluate-quota-both",
		"mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota/quota-defaults", "validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota/quota-rules",
	} {
		b.Run(sample, func(b *testing.B) { benchmark(b, mux, "/"+harness.Route(sample), harness.ReadSample(b, sample)) })
	}
	pod := harness.ReadSample(b, "mutate-pods/production-pod")
	for _, path := range []string{"/mutate-pod", "/validate-pod"} {
		b.Run(path[1:]+"/20KB-pod", func(b *testing.B) { benchmark(b, mux, path, pod) })
	}
}

func benchmark(b *testing.B, mux http.Handler, path string, body []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, path+"?timeout=5s", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

// BenchmarkWorkloads is what a Deployment costs beside its pod: /mutate-pods and /validate-pods of the same template. The former
// is to be at most 1.3 × the latter two.
func BenchmarkWorkloads(b *testing.B) {
	mux := sampleMux(b)
	var compact bytes.Buffer // as the API server sends it
	if err := json.Compact(&compact, harness.ReadSample(b, "mutate-pods/production-pod")); err != nil {
		b.Fatal(err)
	}
	pod := compact.Bytes()
	for _, path := range []string{"/mutate-pods", "/validate-pods"} {
		b.Run("pod"+path, func(b *testing.B) { benchmark(b, mux, path, pod) })
	}
	deployment := deploymentOf(b, pod)
	b.Run("deployment/validate-workloads", func(b *testing.B) { benchmark(b, mux, "/validate-workloads", deployment) })
}

// deploymentOf returns the review of a Deployment whose template is a pod.
func deploymentOf(b *testing.B, pod []byte) []byte {
	var review map[string]any
	if err := json.Unmarshal(pod, &review); err != nil {
		b.Fatal(err)
	}
	request := review["request"].(map[string]any)
	object := request["object"].(map[string]any)
	kind := map[string]any{"group": "apps", "version": "v1", "kind": "Deployment"}
	resource := map[string]any{"group": "apps", "version": "v1", "resource": "deployments"}
	request["kind"], request["requestKind"], request["resource"], request["requestResource"] = kind, kind, resource, resource
	meta := object["metadata"].(map[string]any)
	request["object"] = map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": meta["namespace"]},
		"spec": map[string]any{"template": map[string]any{"metadata": meta, "spec": object["spec"]}}}
	body, err := json.Marshal(review)
	if err != nil {
		b.Fatal(err)
	}
	return body
}
