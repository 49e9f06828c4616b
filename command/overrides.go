package command

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/config"
)

// overrideMetrics returns when the overrides of the policy in force end.
type overrideMetrics struct {
	inForce func() *config.Policy // nil before there is one
}

var overrideExpiry = prometheus.NewDesc("usher_override_expiry_timestamp_seconds",
	"When an override of the policy becomes void; overrides without an end have no series.", []string{"override"}, nil)

// Describe is for the registry.
func (m overrideMetrics) Describe(to chan<- *prometheus.Desc) { to <- overrideExpiry }

// Collect is for the registry.
func (m overrideMetrics) Collect(to chan<- prometheus.Metric) {
	policy := m.inForce()
	if policy == nil {
		return
	}
	for _, o := range policy.Overrides {
		if end := o.End(); !end.IsZero() {
			to <- prometheus.MustNewConstMetric(overrideExpiry, prometheus.GaugeValue, float64(end.Unix()), o.Name)
		}
	}
}

// warnOfEnds logs the overrides of the policy in force that end soon, or have ended.
func (s *service) warnOfEnds() {
	if policy := s.inForce.Load(); policy != nil {
		for _, text := range policy.Overrides.Ending(time.Now()) {
			s.log.Warn("policy: " + text)
		}
	}
}

// daily calls a function once a day until ctx ends.
func daily(ctx context.Context, call func()) {
	ticker := time.NewTicker(24 * time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			call()
		}
	}
}
