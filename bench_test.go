package main

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"usher.dev/usher/load/reviews"
)

// BenchmarkRoutes measures every route on reviews of real size, changed and unchanged: bytes in, bytes out, without the
// network and without the log. `make load` measures the service as a whole.
func BenchmarkRoutes(b *testing.B) {
	mux := defaultMux(b)
	for _, review := range reviews.All() {
		b.Run(review.Name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(review.Body)))
			for b.Loop() {
				r := httptest.NewRequest("POST", review.Path+"?timeout=5s", bytes.NewReader(review.Body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}
