package process

import (
	"bytes"
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
