package server

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"usher.dev/usher/admit/gate"
)

func TestGateMetrics(t *testing.T) {
	known := []gate.Gate{{Name: "A", Default: true}, {Name: "B"}, {Name: "C"}}
	gates, err := gate.Parse("A=false,C=true", known, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `
		# HELP usher_gate_enabled 1 if a feature gate is on.
		# TYPE usher_gate_enabled gauge
		usher_gate_enabled{gate="A"} 0
		usher_gate_enabled{gate="B"} 0
		usher_gate_enabled{gate="C"} 1
	`
	if err := testutil.CollectAndCompare(gateMetrics(known, gates), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestPolicyMetrics: a bad policy does not change the time of the one in force.
func TestPolicyMetrics(t *testing.T) {
	m := newPolicyMetrics()
	m.changed()
	since := value(t, m.loaded)
	m.current.Set(0)
	if value(t, m.current) != 0 || value(t, m.loaded) != since || since == 0 {
		t.Errorf("kept: current %v, loaded %v, before %v", value(t, m.current), value(t, m.loaded), since)
	}
	m.changed()
	if value(t, m.current) != 1 || value(t, m.loaded) < since {
		t.Errorf("changed: current %v, loaded %v, before %v", value(t, m.current), value(t, m.loaded), since)
	}
}

func value(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	return testutil.ToFloat64(c)
}
