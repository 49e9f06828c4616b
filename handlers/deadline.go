package handlers

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a time, as context.WithDeadline makes it. But it starts a timer only when somebody
// waits for its end, as hardly a review does.
type deadline struct {
	context.Context // of the request
	at              time.Time

	mu      sync.Mutex
	waiting context.Context // with a timer; nil while nobody has waited
	stop    context.CancelFunc
	over    error // why it has ended; nil while nobody knows
}

func newDeadline(of context.Context, at time.Time) *deadline { return &deadline{Context: of, at: at} }

// Deadline returns the time of the end.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done returns a channel that is closed at the end.
func (d *deadline) Done() <-chan struct{} { return d.timed().Done() }

// AfterFunc calls f at the end. The context package uses it for contexts that are made of d, instead of a goroutine.
func (d *deadline) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(d.timed(), f) }

// timed returns the context with a timer.
func (d *deadline) timed() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting, d.stop = context.WithDeadline(d.Context, d.at)
	}
	if d.over != nil {
		d.stop()
	}
	return d.waiting
}

// Err returns why the context has ended, or nil. If its time was over and the caller went away before somebody asked, it
// was the time: the order is unknown, and too slow is our failure.
func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reason()
}

func (d *deadline) reason() error {
	switch {
	case d.over != nil:
	case d.waiting != nil:
		d.over = d.waiting.Err()
	case !time.Now().Before(d.at):
		d.over = context.DeadlineExceeded
	default:
		d.over = d.Context.Err()
	}
	return d.over
}

// cancel ends the context and releases its timer.
func (d *deadline) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = cmp.Or(d.reason(), context.Canceled)
	if d.stop != nil {
		d.stop()
	}
}
