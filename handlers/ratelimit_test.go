package handlers

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/admit"
)

// TestLimitExceeded: a review beyond a limit is answered with 429, and the time when a retry is worthwhile, in whole
// seconds. A review that is only counted, a heartbeat, and a request that the route is not for are answered as usual.
func TestLimitExceeded(t *testing.T) {
	refuse := admit.LimitExceeded{Limit: "tenants", Refuse: true, Wait: 1200 * time.Millisecond}
	for _, test := range []struct {
		name     string
		exceeded admit.LimitExceeded
		review   string
		beat     bool
		code     int
		retry    string
		outcome  Outcome
	}{
		{"refused", refuse, podReview, false, 429, "2", Limited},
		{"in no time", admit.LimitExceeded{Limit: "tenants", Refuse: true, Wait: 1}, podReview, false, 429, "1", Limited},
		{"in exactly two seconds", admit.LimitExceeded{Limit: "tenants", Refuse: true, Wait: 2 * time.Second}, podReview, false, 429, "2", Limited},
		{"later than the caller waits", admit.LimitExceeded{Limit: "tenants", Refuse: true, Wait: time.Minute}, podReview, false, 429, "", Limited},
		{"counted", admit.LimitExceeded{Limit: "tenants", Wait: time.Second}, podReview, false, 200, "", Allowed},
		{"none", admit.LimitExceeded{}, podReview, false, 200, "", Allowed},
		{"a heartbeat", refuse, podReview, true, 200, "", Allowed},
		{"not for the route", refuse, strings.Replace(podReview, `"CREATE"`, `"UPDATE","oldObject":{}`, 1), false, 200, "", Allowed},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen Decision
			e := testServer(func(_ admit.Route, d Decision, _ time.Duration) { seen = d })
			ran := false
			r := route(func(context.Context, *admit.Request, *admit.Pod) error { ran = true; return nil })
			r.Limit = func(*admit.Request) admit.LimitExceeded { return test.exceeded }
			if test.beat {
				r.For[0].Resources = append(r.For[0].Resources, "nodes/status")
			}
			w := httptest.NewRecorder()
			e.Serve([]admit.Route{r}).ServeHTTP(w, postTo(strings.NewReader(test.review)))
			if w.Code != test.code || w.Header().Get("Retry-After") != test.retry || seen.Outcome != test.outcome {
				t.Errorf("%d, Retry-After %q, %s: %s", w.Code, w.Header().Get("Retry-After"), seen.Outcome, w.Body)
			}
			if tolerated := seen.Request.ToleratedErrors(); len(tolerated) > 0 {
				t.Errorf("it is reported as %v", tolerated)
			}
			if test.code == 429 && (ran || !strings.Contains(w.Body.String(), "beyond the limit tenants of the policy")) {
				t.Errorf("the chain ran: %v; %s", ran, w.Body)
			}
		})
	}
}
