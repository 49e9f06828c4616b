package server

import (
	"context"

	"usher.dev/usher/internal/metric"
	"usher.dev/usher/internal/poll"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/connections"
)

var callersTotal = metric.Counter("usher_callers_total",
	"Reviews by what is known of their sender (known, missing, wrong-certificate, wrong-name, wrong-token).", "result")

// openCallers opens the gate for callers, if they are checked, and follows its files until ctx ends.
func (s *service) openCallers(ctx context.Context) error {
	gate, err := callers.Open(s.Callers, s.Log)
	if gate == nil {
		return err
	}
	gate.Proven = connections.Proven
	s.edge.Caller = gate.Check
	s.metrics.MustRegister(metric.Collector(func(add metric.Add) {
		for result, n := range gate.Counts() {
			add(callersTotal, float64(n), string(result))
		}
	}))
	gate.Watch(ctx, func() poll.Times { return times(ctx) }, func(file string, err error) {
		if err != nil {
			s.Log.WithError(err).Error("the file of known callers is bad; the content in force stays")
			return
		}
		s.Log.WithField("file", file).Info("known callers in force")
	})
	s.Log.WithField("auth", s.Callers.Auth).Info("callers are checked")
	return nil
}
