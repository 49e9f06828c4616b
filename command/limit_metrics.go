package command

import (
	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/server/ratelimit"
)

// limitMetrics count what is beyond the limits of the policy.
type limitMetrics struct{ *ratelimit.Limits }

var (
	limitExceeded = prometheus.NewDesc("usher_limit_exceeded_total", "Reviews beyond a limit of the policy, refused or only counted.",
		[]string{"limit"}, nil)
	limitBuckets = prometheus.NewDesc("usher_limit_buckets", "Token buckets of a limit of the policy.", []string{"limit"}, nil)
)

// Describe is for the registry.
func (m limitMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- limitExceeded
	to <- limitBuckets
}

// Collect is for the registry.
func (m limitMetrics) Collect(to chan<- prometheus.Metric) {
	for _, l := range m.Status() {
		to <- prometheus.MustNewConstMetric(limitExceeded, prometheus.CounterValue, float64(l.Exceeded), l.Name)
		to <- prometheus.MustNewConstMetric(limitBuckets, prometheus.GaugeValue, float64(l.Buckets), l.Name)
	}
}
