package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/metric"
	"usher.dev/usher/server/ratelimit"
)

// registerMetrics registers the metrics that every server has.
func (s *service) registerMetrics() {
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "usher_build_info", Help: "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": s.Version}}, func() float64 { return 1 })
	s.metrics.MustRegister(s.policy.current, s.policy.loaded, s.policy.dropped, s.trials.validated,
		gateMetrics(s.Suites.Gates(), s.Gates), stepMetrics(s.routes.Load), overrideMetrics(s.inForce.Load), limitMetrics(s.limits), build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.Lines != nil {
		s.metrics.MustRegister(logMetrics.of(s.Lines))
	}
}

// policyMetrics says which policy is active.
type policyMetrics struct{ current, loaded, dropped prometheus.Gauge }

func newPolicyMetrics() policyMetrics {
	return policyMetrics{
		current: prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_policy_current",
			Help: "1 if the policy file's content is in force, 0 if it is bad and an older one is kept."}),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_policy_load_timestamp_seconds",
			Help: "When the policy that is in force was loaded."}),
		dropped: prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_policy_dropped_sections",
			Help: "Sections that an earlier policy of this process had, and the policy in force lacks."}),
	}
}

// changed records that a new policy is active.
func (m policyMetrics) changed() {
	m.current.Set(1)
	m.loaded.SetToCurrentTime()
}

// gateMetrics returns the states of the feature gates, which do not change while usher runs.
func gateMetrics(known []gate.Gate, gates gate.Set) prometheus.Collector {
	states := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "usher_gate_enabled", Help: "1 if a feature gate is on."}, []string{"gate"})
	for _, g := range known {
		states.WithLabelValues(string(g.Name)).Set(metric.Flag(gates.On(g.Name)))
	}
	return states
}

// stepMetrics returns the steps of the routes in force, in the modes of the policy: overrides set others for some requests. routes returns nil
// before there is a policy.
func stepMetrics(routes func() *[]admit.Route) prometheus.Collector {
	steps := metric.Gauge("usher_step_info", "Always 1; a step that is on, and its mode under the policy.", "route", "step", "mode")
	return metric.Collector(func(add metric.Add) {
		inForce := routes()
		if inForce == nil {
			return
		}
		for _, r := range *inForce {
			for _, step := range r.Chain.Steps() {
				add(steps, 1, r.Path, step.Name, string(step.Mode))
			}
		}
	})
}

// overrideMetrics returns when the overrides of the policy in force end. inForce returns nil before there is one.
func overrideMetrics(inForce func() *config.Policy) prometheus.Collector {
	expiry := metric.Gauge("usher_override_expiry_timestamp_seconds",
		"When an override of the policy becomes void; overrides without an end have no series.", "override")
	return metric.Collector(func(add metric.Add) {
		policy := inForce()
		if policy == nil {
			return
		}
		for _, o := range config.SectionOf[override.List](policy) {
			if end := o.End(); !end.IsZero() {
				add(expiry, float64(end.Unix()), o.Name)
			}
		}
	})
}

// limitMetrics returns counts of what is beyond the limits of the policy.
func limitMetrics(limits *ratelimit.Limits) prometheus.Collector {
	exceeded := metric.Counter("usher_limit_exceeded_total", "Reviews beyond a limit of the policy, refused or only counted.", "limit")
	buckets := metric.Gauge("usher_limit_buckets", "Token buckets of a limit of the policy.", "limit")
	return metric.Collector(func(add metric.Add) {
		for _, l := range limits.Status() {
			add(exceeded, float64(l.Exceeded), l.Name)
			add(buckets, float64(l.Buckets), l.Name)
		}
	})
}

// clusterMetrics returns the state of the memory of the cluster, for each collection.
func clusterMetrics(c *cluster.Cluster) prometheus.Collector {
	objects := metric.Gauge("usher_cluster_objects", "Objects of the cluster that are kept.", "kind")
	synced := metric.Gauge("usher_cluster_synced", "1 once a kind was listed; before, reviews that need it get a 503.", "kind")
	lastEvent := metric.Gauge("usher_cluster_last_event_timestamp_seconds",
		"When the API server last sent anything about a kind, or when the files were read.", "kind")
	watchFailed := metric.Gauge("usher_cluster_watch_failed",
		"1 if the last list or watch of a kind failed, so that its last known state is used; without a watch there is no series.", "kind")
	problems := metric.Gauge("usher_cluster_problems", "Objects and files that are wrong and not in force; the log names them.")
	return metric.Collector(func(add metric.Add) {
		for _, s := range c.Status() {
			last := 0.0
			if !s.LastEvent.IsZero() {
				last = float64(s.LastEvent.UnixMilli()) / 1000
			}
			add(objects, float64(s.Objects), s.Name)
			add(synced, metric.Flag(s.Synced), s.Name)
			add(lastEvent, last, s.Name)
			if s.Watched {
				add(watchFailed, metric.Flag(s.Err != nil), s.Name)
			}
		}
		add(problems, float64(len(c.Problems())))
	})
}

// timestamp is a gauge of a time, 0 if there is none.
func timestamp(name, help string, at func() time.Time) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if t := at(); !t.IsZero() {
			return float64(t.Unix())
		}
		return 0
	})
}
