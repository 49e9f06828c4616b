package colocation

import "github.com/prometheus/client_golang/prometheus"

// quotaMetrics exports the state of the quota ledger.
type quotaMetrics struct{ *quotas }

var (
	quotaWrites = prometheus.NewDesc("usher_quota_writes_total",
		"Attempts to write reservations to a quota object: written, conflict (another write came first; tried again) or failed.", []string{"result"}, nil)
	quotaDecided = prometheus.NewDesc("usher_quota_decided_pods_total", "Pods that were admitted to a limited quota, or refused.", nil, nil)
	quotaReads   = prometheus.NewDesc("usher_quota_reads_total",
		"Reads of quota objects, by reason: conflict (after a write that did not succeed and that the watch did not explain in time) or name (a request names a quota that no watch has shown).", []string{"reason"}, nil)
	quotaWaits = prometheus.NewDesc("usher_quota_waits_total",
		"Decisions that waited: for pods or for the tree (other replicas have observed more), for a change (of a quota, admitted and not observed yet) or for a turn (to write).",
		[]string{"for"}, nil)
	quotaOldest = prometheus.NewDesc("usher_quota_oldest_reservation_timestamp_seconds",
		"When the oldest reservation that still stands was made; without reservations there is no series.", nil, nil)
	quotaReservations = prometheus.NewDesc("usher_quota_reservations", "Pods that were admitted and stand in a quota's reservations now.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m quotaMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m quotaMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.ledger.Stats()
	for result, n := range map[string]int64{"written": s.Writes - s.Conflicts - s.Failures, "conflict": s.Conflicts, "failed": s.Failures} {
		to <- prometheus.MustNewConstMetric(quotaWrites, prometheus.CounterValue, float64(n), result)
	}
	for what, n := range map[string]int64{"pods": s.WaitsForPods, "tree": s.WaitsForTree, "change": s.WaitsForChange, "turn": s.WaitsForTurn} {
		to <- prometheus.MustNewConstMetric(quotaWaits, prometheus.CounterValue, float64(n), what)
	}
	to <- prometheus.MustNewConstMetric(quotaReads, prometheus.CounterValue, float64(s.Reads), "conflict")
	to <- prometheus.MustNewConstMetric(quotaReads, prometheus.CounterValue, float64(m.asked.Load()), "name")
	to <- prometheus.MustNewConstMetric(quotaDecided, prometheus.CounterValue, float64(s.Decided))
	to <- prometheus.MustNewConstMetric(quotaReservations, prometheus.GaugeValue, float64(s.Reservations))
	if !s.Oldest.IsZero() {
		to <- prometheus.MustNewConstMetric(quotaOldest, prometheus.GaugeValue, float64(s.Oldest.Unix()))
	}
}
