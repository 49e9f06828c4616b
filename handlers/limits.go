package handlers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// errShed is the cause of an answer that sends the caller away: there is more to do than can be done in time.
var errShed = errors.New("too many reviews at once")

// Limits bound what is under way at one moment, whoever posts: reviews being decided, and bytes of bodies held.
type Limits struct {
	slots chan struct{}
	held  atomic.Int64
}

// Room is made for a body as it arrives. More room than the first is made while all bodies together hold at most maxHeld bytes;
// the first room, which is all that an ordinary review needs, up to twice as much, so that a few large bodies that dribble in
// keep nobody out.
const maxHeld = 64 << 20

// NewLimits lets so many reviews be decided at once.
func NewLimits(inFlight int) *Limits {
	return &Limits{slots: make(chan struct{}, inFlight)}
}

// InFlight is the number of reviews being decided now.
func (l *Limits) InFlight() int { return len(l.slots) }

// maxWait is the longest wait for a slot: who waits longer will not be answered in time either, and a 503 with Retry-After
// lets the API server try again within its own timeout.
const maxWait = 100 * time.Millisecond

// enter takes a slot, waiting for 100 ms or a tenth of the time that is left, whichever is less.
func (l *Limits) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	wait := maxWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/10)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errShed
	}
}

func (l *Limits) leave() { <-l.slots }

// firstRoom is the room made for a body that has not sent anything yet, in bytes.
const firstRoom = 64 << 10

// read reads all of a request's body, making room as it arrives. What it holds is given back with release, whatever err is.
// Room that into has already was counted when it was made.
func (l *Limits) read(into *bytes.Buffer, w http.ResponseWriter, r *http.Request) (release func(), err error) {
	held := 0
	release = func() { l.held.Add(int64(-held)) }
	if err := checkHead(w, r); err != nil {
		return release, err
	}
	body := http.MaxBytesReader(w, r.Body, maxBody)
	for {
		if into.Available() < 2*bytes.MinRead {
			room := max(firstRoom, into.Cap())
			held += room
			if all := l.held.Add(int64(room)); all > maxHeld && (into.Len() > 0 || all > 2*maxHeld) {
				return release, errShed
			}
			into.Grow(room)
		}
		// What is kept free is for the read that finds the end.
		_, err := io.CopyN(into, body, int64(into.Available()-bytes.MinRead))
		if errors.Is(err, io.EOF) {
			return release, nil
		}
		if err != nil {
			return release, bodyFault(err)
		}
	}
}
