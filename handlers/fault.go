package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"usher.dev/usher/admit"
)

// badRequestError is the answer to a request that is not a valid review: the HTTP status, and a text for the caller.
type badRequestError struct {
	code int
	text string
}

func (f *badRequestError) Error() string { return f.text }

func badReview(format string, args ...any) error {
	return &badRequestError{http.StatusBadRequest, admit.Shorten(fmt.Sprintf(format, args...), 500)}
}

// unauthenticatedError is the fault of a request whose sender must not post reviews.
type unauthenticatedError struct{ error }

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

// fail sets the outcome, the HTTP status and the text of the answer for an error that is not the user's fault.
func (d *Decision) fail(err error) {
	d.Err, d.Response, d.retry = err, nil, 0
	caller, invalid := errors.AsType[*badRequestError](err)
	limited, isLimited := errors.AsType[*rateLimitedError](err)
	_, unauthenticated := errors.AsType[*unauthenticatedError](err)
	switch {
	case invalid:
		d.Outcome, d.Code, d.text = Invalid, caller.code, err.Error()
	case unauthenticated:
		d.Outcome, d.Code, d.text = Unauthenticated, http.StatusUnauthorized, err.Error()
	case isLimited:
		d.Outcome, d.Code, d.text, d.retry = Limited, http.StatusTooManyRequests, err.Error(), limited.retry
	case errors.Is(err, context.Canceled): // or the caller closed its side of the connection, and still reads
		d.Outcome, d.Code, d.text = Canceled, statusClientClosedRequest, "the caller went away"
	case errors.Is(err, errShed):
		d.Outcome, d.Code, d.text, d.retry = Shed, http.StatusServiceUnavailable, tryAgain, 1
	case errors.Is(err, admit.ErrNotReady):
		d.Outcome, d.Code, d.text, d.retry = Failed, http.StatusServiceUnavailable, d.named(tryAgain), 1
	default:
		d.Outcome, d.Code, d.text = Failed, http.StatusInternalServerError, d.named("internal error; usher's log says more")
	}
}

// tryAgain is the text of an answer with Retry-After; the API server's client tries again within its timeout.
const tryAgain = "not ready or too busy; try again"

// named returns a text with the uid of the review, under which the log says more.
func (d *Decision) named(text string) string {
	if d.Request == nil {
		return text
	}
	return fmt.Sprintf("%s (review %s)", text, d.Request.UID)
}

// statusClientClosedRequest is the status that proxies log when a client went away. Clients rarely see it.
const statusClientClosedRequest = 499
