package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkRoutes measures every route on its samples: bytes in, bytes out, without the network.
func BenchmarkRoutes(b *testing.B) {
	mux := defaultMux(b)
	for _, name := range samples(b) {
		b.Run(name, func(b *testing.B) {
			body := readSample(b, name)
			route, _, _ := strings.Cut(name, "/")
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				r := httptest.NewRequest("POST", "/"+route, bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				mux.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
