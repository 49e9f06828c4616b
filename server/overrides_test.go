package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

// endingPolicy has an override that has ended when synctest's clock starts, another that ends ten days later, and one without end.
func endingPolicy(t *testing.T) *config.Policy {
	t.Helper()
	return configtest.Parse(t, `overrides:
- {name: past, steps: [a], mode: warn, until: 1999-12-30, reason: why}
- {name: soon, steps: [a], mode: warn, until: 2000-01-10, reason: why}
- {name: always, steps: [a], mode: enforce, reason: why}`, config.Section[override.List]{Name: "overrides"})
}

// TestOverridesAreRecalledDaily: an override that ends soon, or has ended, is logged once a day.
func TestOverridesAreRecalledDaily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logtest.NewNullLogger()
		s := &service{Options: Options{Log: log}}
		s.inForce.Store(endingPolicy(t))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go daily(ctx, s.warnOfEnds)
		for _, c := range []struct {
			after      time.Duration
			past, soon int
			says       string
		}{
			{23 * time.Hour, 0, 0, ""},
			{2 * time.Hour, 1, 1, "override soon ends after 2000-01-10, in 9 days"},
			{24 * time.Hour, 2, 2, "in 8 days"},
			{10 * 24 * time.Hour, 12, 12, "override soon has ended"},
		} {
			time.Sleep(c.after)
			synctest.Wait()
			text := ""
			for _, line := range lines.AllEntries() {
				text += line.Message + "\n"
			}
			if past, soon := strings.Count(text, "override past"), strings.Count(text, "override soon"); past != c.past || soon != c.soon || !strings.Contains(text, c.says) {
				t.Errorf("after %s more: %d lines about past, %d about soon: %s", c.after, past, soon, text)
			}
		}
	})
}

// TestOverrideExpiryMetric: the series match the policy in force.
func TestOverrideExpiryMetric(t *testing.T) {
	s := &service{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(overrideMetrics(s.inForce.Load))
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series before there is a policy: %v", n, err)
	}
	s.inForce.Store(endingPolicy(t))
	want := `
		# HELP usher_override_expiry_timestamp_seconds When an override of the policy becomes void; overrides without an end have no series.
		# TYPE usher_override_expiry_timestamp_seconds gauge
		usher_override_expiry_timestamp_seconds{override="past"} 9.465984e+08
		usher_override_expiry_timestamp_seconds{override="soon"} 9.475488e+08
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
