package handlers

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
)

// TestOverridesAreReported: each use of an override is in the log line and counted, also if the step is off.
func TestOverridesAreReported(t *testing.T) {
	named := func(name string) admit.Mutator[admit.Pod] {
		return admit.Mutator[admit.Pod]{Name: name, Run: func(context.Context, *admit.Request, *admit.Pod) error { return nil }}
	}
	r := route(nil)
	r.Chain = admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{named("a"), named("b"), named("c")}).WithOverrides(override.Of([]admit.Override{
		{Name: "first", Steps: []string{"a"}, Mode: admit.Off}, {Name: "second", Steps: []string{"a", "c"}, Mode: admit.Warn}},
		override.Context{Now: time.Now}))
	var line bytes.Buffer
	log := logrus.New()
	log.SetOutput(&line)
	log.SetFormatter(&logrus.JSONFormatter{})
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry, NewLimits(1))
	for range 2 {
		line.Reset()
		d := Decide(t.Context(), r, []byte(podReview), nil)
		Log(log)(r, d, 0)
		metrics.Observe(r, d, 0)
	}
	if want := `"overrides":"a: off (first), c: warn (second)"`; !strings.Contains(line.String(), want) {
		t.Errorf("the log lacks %s: %s", want, line.String())
	}
	want := `
		# HELP usher_override_uses_total Requests that met a step in the mode that an override of the policy sets.
		# TYPE usher_override_uses_total counter
		usher_override_uses_total{mode="off",override="first",step="a"} 2
		usher_override_uses_total{mode="warn",override="second",step="c"} 2
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "usher_override_uses_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "usher_step_duration_seconds"); n != 2 || err != nil {
		t.Errorf("the durations of %d steps are measured, want those of b and c: %v", n, err)
	}
}
