package command

import (
	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/admit/gate"
)

// policyMetrics says which policy is active.
type policyMetrics struct{ current, loaded prometheus.Gauge }

func newPolicyMetrics() policyMetrics {
	return policyMetrics{
		current: prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_policy_current",
			Help: "1 if the policy file's content is in force, 0 if it is bad and an older one is kept."}),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_policy_load_timestamp_seconds",
			Help: "When the policy that is in force was loaded."}),
	}
}

// kept records that a new policy is invalid, so that the active one stays.
func (m policyMetrics) kept() { m.current.Set(0) }

// changed records that a new policy is active.
func (m policyMetrics) changed() {
	m.current.Set(1)
	m.loaded.SetToCurrentTime()
}

// gateMetrics returns the states of the feature gates, which do not change while usher runs.
func gateMetrics(known []gate.Gate, gates gate.Set) prometheus.Collector {
	states := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "usher_gate_enabled", Help: "1 if a feature gate is on."}, []string{"gate"})
	for _, g := range known {
		states.WithLabelValues(string(g.Name)).Set(flag(gates.On(g.Name)))
	}
	return states
}
