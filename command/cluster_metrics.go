package command

import (
	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/cluster"
)

// clusterMetrics tell how the memory of the cluster is doing, collection by collection.
type clusterMetrics struct{ *cluster.Cluster }

var (
	clusterObjects = prometheus.NewDesc("usher_cluster_objects", "Objects of the cluster that are kept.", []string{"kind"}, nil)
	clusterSynced  = prometheus.NewDesc("usher_cluster_synced", "1 once a kind was listed; before, reviews that need it get a 503.",
		[]string{"kind"}, nil)
	clusterLastEvent = prometheus.NewDesc("usher_cluster_last_event_timestamp_seconds",
		"When the API server last sent anything about a kind, or when the files were read.", []string{"kind"}, nil)
	clusterWatchFailed = prometheus.NewDesc("usher_cluster_watch_failed",
		"1 if the last list or watch of a kind failed, so that its last known state is used; without a watch there is no series.", []string{"kind"}, nil)
	clusterProblems = prometheus.NewDesc("usher_cluster_problems", "Objects and files that are wrong and not in force; the log names them.", nil, nil)
)

// Describe is for the registry.
func (m clusterMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect is for the registry.
func (m clusterMetrics) Collect(to chan<- prometheus.Metric) {
	for _, s := range m.Status() {
		kind, last := s.Name, 0.0
		if !s.LastEvent.IsZero() {
			last = float64(s.LastEvent.UnixMilli()) / 1000
		}
		to <- prometheus.MustNewConstMetric(clusterObjects, prometheus.GaugeValue, float64(s.Objects), kind)
		to <- prometheus.MustNewConstMetric(clusterSynced, prometheus.GaugeValue, flag(s.Synced), kind)
		to <- prometheus.MustNewConstMetric(clusterLastEvent, prometheus.GaugeValue, last, kind)
		if s.Watched {
			to <- prometheus.MustNewConstMetric(clusterWatchFailed, prometheus.GaugeValue, flag(s.Err != nil), kind)
		}
	}
	to <- prometheus.MustNewConstMetric(clusterProblems, prometheus.GaugeValue, float64(len(m.Problems())))
}

// flag returns the value of a metric that is 1 or 0.
func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
