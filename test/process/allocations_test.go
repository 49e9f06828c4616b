//go:build !race

package process

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/handlers"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/test/reviews"
)

// TestAllocations: a review of the core suite makes few objects, from bytes to bytes and with its log line, beside what
// net/http makes. The bounds have some room, since pools are emptied now and then. The race detector empties them at
// random, so the test is not built with it.
func TestAllocations(t *testing.T) {
	edge := harness.DefaultServer()
	edge.Observe = handlers.Log(&logrus.Logger{Out: io.Discard, Level: logrus.InfoLevel,
		Formatter: handlers.JSONLines{Formatter: &logrus.JSONFormatter{TimestampFormat: handlers.TimeFormat}, To: io.Discard}})
	mux := edge.Serve(sampleInstance(t).Routes())
	empty := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	bounds := map[string]float64{
		"2KB-pod": 56, "20KB-pod-changed": 55, "20KB-pod-unchanged": 45, "51KB-node-amplified": 109, "51KB-node-unchanged": 102, "220KB-pod": 62,
	}
	for _, r := range reviews.Core() {
		t.Run(r.Name, func(t *testing.T) {
			of := func(handler http.Handler) float64 {
				return testing.AllocsPerRun(200, func() { serveOnce(t, handler, r) })
			}
			if got := of(mux) - of(empty); got > bounds[r.Name] {
				t.Errorf("%.0f objects, want at most %.0f", got, bounds[r.Name])
			} else {
				t.Logf("%.0f objects", got)
			}
		})
	}
}

func serveOnce(t *testing.T, handler http.Handler, r reviews.Review) {
	request := httptest.NewRequest(http.MethodPost, r.Path+"?timeout=10s", bytes.NewReader(r.Body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	if handler.ServeHTTP(answer, request); answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
}
