package colocation

import (
	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/internal/metric"
)

var (
	quotaWrites = metric.Counter("usher_quota_writes_total",
		"Attempts to write reservations to a quota object: written, conflict (another write came first; tried again) or failed.", "result")
	quotaDecided = metric.Counter("usher_quota_decided_pods_total", "Pods that were admitted to a limited quota, or refused.")
	quotaGranted = metric.Counter("usher_quota_granted_pods_total", "Pods that a replica admitted against a grant, without a write.")
	quotaReads   = metric.Counter("usher_quota_reads_total",
		"Reads of quota objects, by reason: conflict (after a write that did not succeed and that the watch did not explain in time) or name (a "+
			"request names a quota that no watch has shown).", "reason")
	quotaWaits = metric.Counter("usher_quota_waits_total",
		"Decisions that waited: for pods or for the tree (other replicas have observed more), for a change (of a quota, admitted and not observed "+
			"yet) or for a turn (to write).", "for")
	quotaOldest = metric.Gauge("usher_quota_oldest_reservation_timestamp_seconds",
		"When the oldest reservation that still stands was made; without reservations there is no series.")
	quotaRevived = metric.Gauge("usher_quota_revived_pods",
		"Pods that had ended and whose status says that they run again, which no replica has admitted: they count, and may exceed a limit.")
	quotaStatusWrites = metric.Counter("usher_quota_status_writes_total",
		"Attempts to write the status of a quota: written, conflict (another write came first; tried again) or failed (also to read it).", "result")
	quotaStatusWithheld = metric.Gauge("usher_quota_status_withheld",
		"What keeps usher from writing the status of quotas: the number of quotas whose status another manager writes (writer), and 1 if the CRD "+
			"has no status subresource (subresource).", "reason")
	quotaReservations = metric.Gauge("usher_quota_reservations", "Pods that were admitted and stand in a quota's reservations now.")
)

// quotaMetrics returns the state of the quota ledger.
func quotaMetrics(q *quotas) prometheus.Collector {
	return metric.Collector(func(add metric.Add) {
		s := q.ledger.Stats()
		for result, n := range map[string]int64{"written": s.Writes - s.Conflicts - s.Failures, "conflict": s.Conflicts, "failed": s.Failures} {
			add(quotaWrites, float64(n), result)
		}
		for what, n := range map[string]int64{"pods": s.WaitsForPods, "tree": s.WaitsForTree, "change": s.WaitsForChange, "turn": s.WaitsForTurn} {
			add(quotaWaits, float64(n), what)
		}
		q.status.collect(add)
		add(quotaReads, float64(s.Reads), "conflict")
		add(quotaReads, float64(q.asked.Load()), "name")
		add(quotaDecided, float64(s.Decided))
		add(quotaGranted, float64(s.Granted))
		add(quotaReservations, float64(s.Reservations))
		add(quotaRevived, float64(s.Revived))
		if !s.Oldest.IsZero() {
			add(quotaOldest, float64(s.Oldest.Unix()))
		}
	})
}

// collect adds what a writer has done, and why it does not write; nothing if there is none.
func (w *statusWriter) collect(add metric.Add) {
	if w == nil {
		return
	}
	for result, n := range map[string]int64{"written": w.written.Load(), "conflict": w.conflicts.Load(), "failed": w.failures.Load()} {
		add(quotaStatusWrites, float64(n), result)
	}
	add(quotaStatusWithheld, float64(w.others.Load()), "writer")
	add(quotaStatusWithheld, metric.Flag(w.lacks.Load()), "subresource")
}
