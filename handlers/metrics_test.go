package handlers

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// TestStepDecisions: each step that ran is counted with one decision, which says what its mode prevented.
func TestStepDecisions(t *testing.T) {
	refused := field.ErrorList{field.Forbidden(field.NewPath("spec"), "not here")}
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry, NewLimits(1))
	metrics.Observe(admit.Route{Path: "/r"}, Decision{Result: admit.Result{Steps: []admit.StepResult{
		{Name: "passes", Mode: admit.Enforce},
		{Name: "changes", Mode: admit.Enforce, Changed: true},
		{Name: "refuses", Mode: admit.Enforce, Refused: refused},
		{Name: "refuses", Mode: admit.Warn, Refused: refused},
		{Name: "refuses", Mode: admit.DryRun, Refused: refused},
		{Name: "changes", Mode: admit.DryRun, WouldChange: true},
		{Name: "off", Mode: admit.Off},
	}}}, 0)
	want := `
		# HELP usher_step_decisions_total Decisions of steps by mode (passed, changed, denied, would_change, would_deny).
		# TYPE usher_step_decisions_total counter
		usher_step_decisions_total{decision="changed",mode="enforce",route="/r",step="changes"} 1
		usher_step_decisions_total{decision="denied",mode="enforce",route="/r",step="refuses"} 1
		usher_step_decisions_total{decision="passed",mode="enforce",route="/r",step="passes"} 1
		usher_step_decisions_total{decision="would_change",mode="dryrun",route="/r",step="changes"} 1
		usher_step_decisions_total{decision="would_deny",mode="dryrun",route="/r",step="refuses"} 1
		usher_step_decisions_total{decision="would_deny",mode="warn",route="/r",step="refuses"} 1
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "usher_step_decisions_total"); err != nil {
		t.Error(err)
	}
}

// TestExpectedFaults: the series of faults exist before the first fault, so that the first one is an increase.
func TestExpectedFaults(t *testing.T) {
	registry := prometheus.NewRegistry()
	heartbeat := admit.Route{Path: "/mutate-nodes", For: []admit.Match{{Rule: admit.Rule{Resources: []string{"nodes/status"}}}}}
	if !heartbeat.Heartbeat() {
		t.Fatal("this route is no heartbeat")
	}
	NewMetrics(registry, NewLimits(1)).Expect([]admit.Route{heartbeat, {Path: "/validate-pods"}})
	want := `
		# HELP usher_panics_total Panics in steps.
		# TYPE usher_panics_total counter
		usher_panics_total{route="/mutate-nodes"} 0
		usher_panics_total{route="/validate-pods"} 0
		# HELP usher_troubles_total Bad input that was passed over, such as a node whose original numbers are unknown.
		# TYPE usher_troubles_total counter
		usher_troubles_total{reason="failed",route="/mutate-nodes"} 0
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "usher_panics_total", "usher_troubles_total"); err != nil {
		t.Error(err)
	}
}

// TestBuckets: the histograms show fast reviews apart from slow ones, up to the API server's default timeout.
func TestBuckets(t *testing.T) {
	if !slices.IsSorted(buckets) || buckets[0] > .001 || buckets[len(buckets)-1] < defaultTimeout.Seconds() {
		t.Errorf("the buckets are %v", buckets)
	}
}
