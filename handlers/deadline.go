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
	context.Context // that of the request
	at              time.Time

	mu      sync.Mutex
	waiting context.Context // with a timer; nil while nobody has asked for Done
	stop    context.CancelFunc
	over    error // why it had ended when it was canceled; nil before
}

func newDeadline(of context.Context, at time.Time) *deadline { return &deadline{Context: of, at: at} }

// Deadline returns the time of the end.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done returns a channel that is closed at the end.
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting, d.stop = context.WithDeadline(d.Context, d.at)
	}
	if d.over != nil {
		d.stop()
	}
	return d.waiting.Done()
}

// Err returns why the context has ended, or nil.
func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reason()
}

func (d *deadline) reason() error {
	switch {
	case d.waiting != nil:
		return d.waiting.Err()
	case d.over != nil:
		return d.over
	case d.Context.Err() != nil:
		return d.Context.Err()
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	}
	return nil
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
