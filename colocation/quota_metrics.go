package colocation

import (
	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/colocation/ledger"
)

// quotaMetrics exports the state of the quota ledger.
type quotaMetrics struct{ *ledger.Ledger }

var (
	quotaWrites = prometheus.NewDesc("usher_quota_writes_total",
		"Attempts to write reservations to a quota object: written, conflict (another write came first; tried again) or failed.", []string{"result"}, nil)
	quotaOldest = prometheus.NewDesc("usher_quota_oldest_reservation_timestamp_seconds",
		"When the oldest reservation that still stands was made; without reservations there is no series.", nil, nil)
	quotaReservations = prometheus.NewDesc("usher_quota_reservations", "Pods that were admitted and stand in a quota's reservations now.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m quotaMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m quotaMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.Stats()
	for result, n := range map[string]int64{"written": s.Writes - s.Conflicts - s.Failures, "conflict": s.Conflicts, "failed": s.Failures} {
		to <- prometheus.MustNewConstMetric(quotaWrites, prometheus.CounterValue, float64(n), result)
	}
	to <- prometheus.MustNewConstMetric(quotaReservations, prometheus.GaugeValue, float64(s.Reservations))
	if !s.Oldest.IsZero() {
		to <- prometheus.MustNewConstMetric(quotaOldest, prometheus.GaugeValue, float64(s.Oldest.Unix()))
	}
}
