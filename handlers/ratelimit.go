package handlers

import (
	"context"
	"fmt"
	"time"

	"usher.dev/usher/admit"
)

// limited reports whether a limit of the policy refuses a request. A heartbeat is never refused.
func (d *Decision) limited(r admit.Route) bool {
	if r.Limit == nil {
		return false
	}
	d.Exceeded = r.Limit(d.Request)
	return d.Exceeded.Refuse && !r.Heartbeat()
}

// rateLimitedError is the fault of a request beyond a limit of the policy.
type rateLimitedError struct {
	admit.LimitExceeded
	retry int // seconds after which a retry helps; 0: not within the time of the request
}

func (f *rateLimitedError) Error() string {
	return fmt.Sprintf("beyond the limit %s of the policy; it allows another review in %s", f.Limit, f.Wait.Round(time.Millisecond))
}

// retryAfter returns a wait in whole seconds, rounded up, or 0 if the caller does not wait that long: its client would
// sleep until its timeout, and then say nothing but that, whereas without Retry-After it reports what we answer.
func retryAfter(ctx context.Context, wait time.Duration) int {
	seconds := max(1, (wait+time.Second-1)/time.Second)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < seconds*time.Second {
		return 0
	}
	return int(seconds)
}
