package command

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/internal/poll"
	"usher.dev/usher/server/callers"
)

// openGate opens the gate for callers that the flags ask for, and follows its files until ctx ends.
func (s *service) openGate(ctx context.Context) (err error) {
	if s.gate, err = s.callerSource.open(s.log); s.gate == nil {
		return err
	}
	s.edge.Caller = s.gate.Check
	s.metrics.MustRegister(callerMetrics{s.gate})
	s.gate.Watch(ctx, func() poll.Times { return s.times(ctx) }, func(file string, err error) {
		if err != nil {
			s.log.WithError(err).Error("the file of known callers is bad; the content in force stays")
			return
		}
		s.log.WithField("file", file).Info("known callers in force")
	})
	s.log.WithField("auth", s.callerSource.auth).Info("callers are checked")
	return nil
}

// callerMetrics count the callers.
type callerMetrics struct{ *callers.Gate }

var callersTotal = prometheus.NewDesc("usher_callers_total",
	"Reviews by what is known of their sender (known, missing, wrong-certificate, wrong-name, wrong-token).", []string{"result"}, nil)

// Describe is for the registry.
func (m callerMetrics) Describe(to chan<- *prometheus.Desc) { to <- callersTotal }

// Collect is for the registry.
func (m callerMetrics) Collect(to chan<- prometheus.Metric) {
	for result, n := range m.Counts() {
		to <- prometheus.MustNewConstMetric(callersTotal, prometheus.CounterValue, float64(n), string(result))
	}
}
