package handlers

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus/hooks/test"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// TestUnusedRoute: a review for a route that is off, or that the policy does not use, is allowed with a warning and
// counted; what is no review is refused as by any route.
func TestUnusedRoute(t *testing.T) {
	denies := alwaysDenies("/validate-x")
	off, nothing := denies, denies
	off.Off, nothing.For = true, nil
	for _, c := range []struct {
		name          string
		route         admit.Route
		body          string
		code          int
		outcome       Outcome
		warning       string
		counted       float64
		alsoUntouched bool
	}{
		{"on", denies, podReview, http.StatusOK, Denied, "", 0, false},
		{"off", off, podReview, http.StatusOK, Allowed, "is switched off by feature gates; nothing was checked", 1, true},
		{"for nothing", nothing, podReview, http.StatusOK, Allowed, "is used by no section of the policy; nothing was checked", 1, true},
		{"off, and no review", off, "nonsense", http.StatusBadRequest, Invalid, "", 0, false},
		{"off, and of another kind", off, strings.ReplaceAll(podReview, `"Pod"`, `"Node"`), http.StatusBadRequest, Invalid, "", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(t.Context(), c.route, []byte(c.body), nil)
			if d.Outcome != c.outcome || d.Code != c.code && c.outcome != Denied || (d.Untouched != "") != c.alsoUntouched {
				t.Fatalf("outcome %s, code %d, untouched %q, %v", d.Outcome, d.Code, d.Untouched, d.Err)
			}
			if c.warning != "" && (len(d.Response.Warnings) != 1 || !strings.Contains(d.Response.Warnings[0], c.warning) || d.Response.UID != d.Request.UID) {
				t.Errorf("uid %s, warnings %q", d.Response.UID, d.Response.Warnings)
			}
			registry := prometheus.NewRegistry()
			m := NewMetrics(registry, NewLimits(1))
			m.Observe(c.route, d, time.Second)
			if got := testutil.ToFloat64(m.off.WithLabelValues(c.route.Path)); got != c.counted {
				t.Errorf("counted %v times, want %v", got, c.counted)
			}
		})
	}
}

// TestLogUnused: a route is logged once a minute, others apart from it.
func TestLogUnused(t *testing.T) {
	a, b := alwaysDenies("/validate-a"), alwaysDenies("/validate-b")
	a.Off, b.For = true, nil
	log, lines := test.NewNullLogger()
	clock := time.Unix(0, 0)
	observe := LogUnused(log, func() time.Time { return clock })
	for _, step := range []struct {
		after time.Duration
		route admit.Route
		lines int // altogether
	}{{0, a, 1}, {time.Second, a, 1}, {0, b, 2}, {58 * time.Second, a, 2}, {time.Second, a, 3}, {0, alwaysDenies("/validate-c"), 3}} {
		clock = clock.Add(step.after)
		observe(step.route, Decide(t.Context(), step.route, []byte(podReview), nil), 0)
		if len(lines.AllEntries()) != step.lines {
			t.Fatalf("at %s, %s: %d lines, want %d", clock, step.route.Path, len(lines.AllEntries()), step.lines)
		}
	}
	if text := lines.AllEntries()[0].Message; !strings.Contains(text, "/validate-a is switched off by feature gates, but an API server still calls it") {
		t.Error(text)
	}
}

// alwaysDenies returns a route for the creation of pods that refuses each.
func alwaysDenies(path string) admit.Route {
	r := route(func(context.Context, *admit.Request, *admit.Pod) error {
		return field.Forbidden(field.NewPath("metadata", "name"), "no pod is allowed")
	})
	r.Path = path
	return r
}

// TestRouteForNothing: a route that the policy does not use lets everything pass, as an older registration may send it.
func TestRouteForNothing(t *testing.T) {
	r := route(nil)
	r.For = nil
	if d := Decide(t.Context(), r, []byte(podReview), nil); d.Outcome != Allowed || d.Untouched == "" {
		t.Errorf("%s: %v", d.Outcome, d.Err)
	}
}
