package handlers

import (
	"context"
	"fmt"
	"time"
)

// Excess is a limit of the policy that a request exceeds. The zero value is none.
type Excess struct {
	Limit string
	// Refuse reports whether the request is refused; otherwise it is only counted and logged.
	Refuse bool
	// Wait is the time until the limit allows another request.
	Wait time.Duration
}

// limited reports whether a limit of the policy refuses a request. A heartbeat is never refused.
func (r Route) limited(d *Decision) bool {
	if r.Limit == nil {
		return false
	}
	d.Excess = r.Limit(d.Request)
	return d.Excess.Refuse && !r.Heartbeat()
}

// limitedFault is the fault of a request beyond a limit of the policy.
type limitedFault struct {
	Excess
	retry int // seconds after which a retry helps; 0: not within the time of the request
}

func (f *limitedFault) Error() string {
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
