package handlers

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/admit"
)

// Metrics counts reviews. Every label has a bounded set of values: no namespaces, no names.
type Metrics struct {
	reviews   *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	steps     *prometheus.HistogramVec
	decided   *prometheus.CounterVec
	uses      *prometheus.CounterVec
	tolerated *prometheus.CounterVec
	panics    *prometheus.CounterVec
	off       *prometheus.CounterVec
}

// buckets are upper bounds in seconds, up to the API server's default timeout.
var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registry prometheus.Registerer, limits *Limits) *Metrics {
	m := &Metrics{
		reviews: counter("usher_reviews_total",
			"Reviews by route, operation and outcome (allowed, mutated, denied, invalid, error, shed, limited, unauthenticated, canceled).",
			"route", "operation", "outcome"),
		duration: histogram("usher_review_duration_seconds", "Time to answer a review.", "route"),
		steps:    histogram("usher_step_duration_seconds", "Time that a step took.", "route", "step"),
		decided: counter("usher_step_decisions_total", "Decisions of steps by mode (passed, changed, denied, would_change, would_deny).",
			"route", "step", "mode", "decision"),
		uses: counter("usher_override_uses_total", "Requests that met a step in the mode that an override of the policy sets.",
			"override", "step", "mode"),
		tolerated: counter("usher_troubles_total", "Bad input that was passed over, such as a node whose original numbers are unknown.",
			"route", "reason"),
		panics: counter("usher_panics_total", "Panics in steps.", "route"),
		off: counter("usher_route_off_total", "Reviews that were allowed without a check, because their route is switched off but still registered.",
			"route"),
	}
	inFlight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "usher_reviews_in_flight", Help: "Reviews being decided now."},
		func() float64 { return float64(limits.InFlight()) })
	registry.MustRegister(inFlight, m.reviews, m.duration, m.steps, m.decided, m.uses, m.tolerated, m.panics, m.off)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Expect creates the series of faults that should not occur on the routes. A counter that first appears with the value 1
// has not increased for Prometheus, so that the first fault would cause no alert.
func (m *Metrics) Expect(routes []admit.Route) {
	for _, r := range routes {
		m.panics.WithLabelValues(r.Path)
		if r.Heartbeat() {
			m.tolerated.WithLabelValues(r.Path, "failed")
		}
	}
}

// Observe counts one review.
func (m *Metrics) Observe(route admit.Route, d Decision, took time.Duration) {
	m.reviews.WithLabelValues(route.Path, operation(d.Request), string(d.Outcome)).Inc()
	m.duration.WithLabelValues(route.Path).Observe(took.Seconds())
	for _, s := range d.Result.Steps {
		if s.Override != nil {
			m.uses.WithLabelValues(s.Override.Name, s.Name, string(s.Mode)).Inc()
		}
		if s.Mode == admit.Off {
			continue
		}
		m.steps.WithLabelValues(route.Path, s.Name).Observe(s.Duration.Seconds())
		m.decided.WithLabelValues(route.Path, s.Name, string(s.Mode), decision(s)).Inc()
	}
	if d.Request != nil {
		for _, reason := range d.Request.ToleratedErrors() {
			m.tolerated.WithLabelValues(route.Path, reason).Inc()
		}
	}
	if d.Unchecked(route) {
		m.off.WithLabelValues(route.Path).Inc()
	}
	if d.Stack != nil {
		m.panics.WithLabelValues(route.Path).Inc()
	}
}

// decision returns the label value for what a step decided.
func decision(s admit.StepResult) string {
	switch {
	case len(s.Refused) > 0 && s.Mode == admit.Enforce:
		return "denied"
	case len(s.Refused) > 0:
		return "would_deny"
	case s.WouldChange:
		return "would_change"
	case s.Changed:
		return "changed"
	}
	return "passed"
}

// operation returns the label value for a request's operation: "unknown" if it is invalid, or if the request could not
// be read.
func operation(req *admit.Request) string {
	if req == nil || !slices.Contains(operations, req.Operation) {
		return "unknown"
	}
	return string(req.Operation)
}
