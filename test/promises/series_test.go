package promises

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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

// TestSeriesAreBounded: no label of a metric takes its value from a request. Odd reviews neither bring their texts into a
// label, nor add series without end.
func TestSeriesAreBounded(t *testing.T) {
	random := seed.Random(t)
	registry := prometheus.NewRegistry()
	metrics := handlers.NewMetrics(registry, handlers.NewLimits(8))
	server := harness.DefaultServer()
	server.Observe = func(r admit.Route, d handlers.Decision, took time.Duration) { metrics.Observe(r, d, took) }
	world := defaultWorld(t)
	mux := server.Serve(world.Routes())
	post := func(times int) {
		for _, name := range harness.Samples(t) {
			for range times {
				harness.Post(mux, name, oddReview(random, harness.ReadSample(t, name)))
			}
		}
	}
	post(5)
	before := seriesOf(t, registry)
	post(10)
	after := seriesOf(t, registry)
	for _, s := range after {
		if strings.Contains(s, odd) {
			t.Errorf("a label has a text of a request: %s", s)
		}
	}
	steps := 0
	for _, r := range world.Routes() {
		steps += len(r.Chain.Steps())
	}
	// Outcomes that are rare may appear late, but there are only so many: of each route, for each operation.
	if most := len(world.Routes())*5*8 + steps*8; len(after) > most || len(before) < 100 {
		t.Errorf("%d series after the first reviews, %d after more, at most %d are possible", len(before), len(after), most)
	}
}

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
			all = append(all, fmt.Sprint(f.GetName(), m.GetLabel()))
		}
	}
	slices.Sort(all)
	return all
}
