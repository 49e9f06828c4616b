package promises

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/test/seed"
)

// odd begins every text that TestSeriesAreBounded puts into reviews.
const odd = "zq-odd-"

// TestSeriesAreBounded: no label of a metric takes its value from a request. Whatever odd reviews are sent, each series is one of those
// that the routes and their steps can have.
func TestSeriesAreBounded(t *testing.T) {
	random := seed.Random(t)
	registry := prometheus.NewRegistry()
	metrics := handlers.NewMetrics(registry, handlers.NewLimits(8))
	server := harness.DefaultServer()
	server.Observe = func(r admit.Route, d handlers.Decision, took time.Duration) { metrics.Observe(r, d, took) }
	world := defaultWorld(t)
	mux := server.Serve(world.Routes())
	for _, name := range harness.Samples(t) {
		for range 15 {
			harness.Post(mux, name, oddReview(random, harness.ReadSample(t, name)))
		}
	}
	possible, seen := possibleSeries(world.Routes()), seriesOf(t, registry)
	for _, s := range seen {
		if !possible[s] {
			t.Errorf("a series that cannot be: %s", s)
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d series", len(seen))
	}
}

// possibleSeries returns the series of reviews by these routes that are decided, under a policy without overrides.
func possibleSeries(all []admit.Route) map[string]bool {
	possible := map[string]bool{"usher_reviews_in_flight[]": true}
	add := func(name string, labels ...string) { possible[name+fmt.Sprint(labels)] = true }
	for _, r := range all {
		route := "route=" + r.Path
		add("usher_review_duration_seconds", route)
		for _, outcome := range outcomesOf(r) {
			for _, operation := range []string{"CREATE", "UPDATE", "DELETE", "CONNECT", "unknown"} {
				add("usher_reviews_total", "operation="+operation, "outcome="+string(outcome), route)
			}
		}
		for _, s := range r.Chain.Steps() {
			add("usher_step_duration_seconds", route, "step="+s.Name)
			for _, decision := range decisionsOf(r, s) {
				add("usher_step_decisions_total", "decision="+decision, "mode="+string(s.Mode), route, "step="+s.Name)
			}
		}
		if r.Unused() != "" {
			add("usher_route_off_total", route)
		}
		if r.Heartbeat() {
			for _, reason := range troubles {
				add("usher_troubles_total", "reason="+reason, route)
			}
		}
	}
	return possible
}

func outcomesOf(r admit.Route) []handlers.Outcome {
	outcomes := []handlers.Outcome{handlers.Allowed, handlers.Invalid}
	if r.Chain.Mutates() {
		outcomes = append(outcomes, handlers.Mutated)
	}
	if !r.Heartbeat() {
		outcomes = append(outcomes, handlers.Denied, handlers.Failed)
	}
	return outcomes
}

func decisionsOf(r admit.Route, s admit.Step) []string {
	decisions := []string{"passed"}
	if r.Chain.Mutates() {
		decisions = append(decisions, "changed")
	}
	if !r.Heartbeat() {
		decisions = append(decisions, map[admit.Mode]string{admit.Enforce: "denied", admit.Warn: "would_deny"}[s.Mode])
	}
	return decisions
}

// troubles are the reasons for which a heartbeat leaves a node as it is, at least in part.
var troubles = []string{"failed", "unreadable", "too-large", "saturated", "original-unknown", "ratio-put-back", "ratio-malformed", "ratio-refused", "ratio-foreign"}

// oddReview returns a review with some of its texts, also those that metrics are counted by, replaced by odd ones.
func oddReview(random *rand.Rand, body []byte) []byte {
	var review map[string]any
	if json.Unmarshal(body, &review) != nil {
		return append(body, odd...)
	}
	var edit func(v any) any
	edit = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) { // in the same order with the same seed
				v[key] = edit(v[key])
			}
			if random.IntN(10) == 0 {
				v[fmt.Sprint(odd, random.IntN(1000))] = fmt.Sprint(odd, random.IntN(1000))
			}
		case []any:
			for i := range v {
				v[i] = edit(v[i])
			}
		case string:
			if random.IntN(12) == 0 {
				return fmt.Sprint(odd, random.IntN(1000))
			}
		}
		return v
	}
	if request, ok := review["request"].(map[string]any); ok {
		review["request"] = edit(request)
		if random.IntN(4) == 0 {
			request["operation"] = fmt.Sprint(odd, random.IntN(1000))
		}
	}
	changed, _ := json.Marshal(review) // of what was just decoded
	return bytes.TrimSpace(changed)
}

// seriesOf returns the series of a registry, sorted.
func seriesOf(t *testing.T, registry *prometheus.Registry) (all []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all = append(all, f.GetName()+fmt.Sprint(labels))
		}
	}
	slices.Sort(all)
	return all
}
