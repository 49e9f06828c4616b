// Package metric makes Prometheus collectors of functions that are asked for all values at each scrape.
package metric

import "github.com/prometheus/client_golang/prometheus"

// Series are the values of one metric, one for each combination of the values of its labels.
type Series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// Counter returns the series of a counter.
func Counter(name, help string, labels ...string) Series {
	return Series{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

// Gauge returns the series of a gauge.
func Gauge(name, help string, labels ...string) Series {
	return Series{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

// Add reports a value for the values of the labels.
type Add func(s Series, value float64, labels ...string)

// Collector is called at each scrape, and adds all values.
type Collector func(Add)

// Describe describes nothing: which series there are is known at each scrape.
func (c Collector) Describe(chan<- *prometheus.Desc) {}

// Collect is for the registry.
func (c Collector) Collect(to chan<- prometheus.Metric) {
	c(func(s Series, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
	})
}

// Flag returns the value of a metric that is 1 or 0.
func Flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
