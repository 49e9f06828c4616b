package connections

import (
	"sync/atomic"
	"time"
)

// KeepUnused makes connections wait for the first byte of their first request for the given time. From then on its head may
// take as long as the server's ReadHeaderTimeout says, which otherwise begins with the end of the TLS handshake.
//
// An API server has connections that it has not used yet: if another one becomes free during the handshake, it takes that
// one, and keeps the new one for later. A review that it sends there just when the server closes the connection is lost.
// So the time must be longer than the 90 s for which an API server keeps a connection. It must be set before Accept.
func (l *Listener) KeepUnused(most time.Duration) { l.unused = most }

// unused holds the state of a connection before its first request. Except for ready, only the goroutine that serves the
// connection uses it. It translates the read deadlines that an http.Server sets: for the handshake; none, after it; for the head
// of the first request; and for all of it. The last two are counted from the end of the handshake.
//
// Bytes that arrive together with the end of the handshake are not seen here. If they are half a head, the rest may be as
// late as the first byte of others. The connection gives way like them.
type unused struct {
	most   time.Duration // see KeepUnused
	sent   int           // bytes of the handshake so far
	until  time.Time     // when the handshake must be complete
	ready  atomic.Bool   // the handshake is complete, or there is none; endSilent reads it, too
	asked  time.Time     // when the server began to wait for the request; zero before
	head   time.Duration // the server's time for the head
	begun  bool          // the first byte has arrived
	waited time.Duration // from asked until then
}

// deadline returns the deadline to set when the server sets the given one.
func (u *unused) deadline(given, now time.Time) time.Time {
	switch {
	case given.IsZero():
		u.ready.Store(true)
	case !u.ready.Load():
		u.until = given
	case u.asked.IsZero():
		u.asked, u.head = now, given.Sub(now)
		return now.Add(u.most)
	default: // the head has been read
		return given.Add(u.waited)
	}
	return given
}

// begin reports whether the first byte arrives now, and returns the deadline for the head.
func (u *unused) begin(now time.Time) (deadline time.Time, begins bool) {
	if u.asked.IsZero() || u.begun {
		return time.Time{}, false
	}
	u.begun, u.waited = true, now.Sub(u.asked)
	return now.Add(u.head), true
}

// waitsUnused reports whether the server waits for the first request. The caller holds the listener's lock.
func (c *conn) waitsUnused() bool { return c.unused != nil && c.unused.ready.Load() }

// newUnused returns nil if the server's deadlines stay as they are.
func (l *Listener) newUnused() *unused {
	if l.unused == 0 {
		return nil
	}
	return &unused{most: l.unused}
}

// SetReadDeadline sets the deadline of the server, or a later one before the first request.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.endTurn() // the handshake is complete, if there was one
	if c.unused != nil {
		if t.IsZero() {
			c.listener.begins(c)
		}
		t = c.unused.deadline(t, time.Now())
	}
	return c.TCPConn.SetReadDeadline(t)
}

// begin sets the deadline for the head when its first byte has arrived.
func (c *conn) begin() {
	if c.unused == nil {
		return
	}
	if deadline, begins := c.unused.begin(time.Now()); begins {
		c.listener.begins(c)
		_ = c.TCPConn.SetReadDeadline(deadline)
	}
}
