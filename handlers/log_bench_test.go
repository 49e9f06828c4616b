package handlers

import (
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
)

// BenchmarkLog measures the line of a review, as JSON.
func BenchmarkLog(b *testing.B) {
	observe := Log(&logrus.Logger{Out: io.Discard, Formatter: JSONLines{&logrus.JSONFormatter{TimestampFormat: TimeFormat}, io.Discard}, Level: logrus.InfoLevel})
	d := decisions("5fad46fe-2cf1-49b4-a7e2-047d5777f6d8")[1]
	d.Result.Steps = d.Result.Steps[:1] // the others are not in force
	b.ReportAllocs()
	for b.Loop() {
		observe(admit.Route{Path: "/mutate-pods"}, d, 73*time.Microsecond)
	}
}
