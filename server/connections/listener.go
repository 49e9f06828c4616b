// Package connections limits the number of open connections of an HTTP server, and closes them without losing a
// request.
package connections

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Listener accepts connections for one http.Server, whose ConnState must be its State. The number of open connections
// is limited. A connection is idle unless a request is in progress on it: from the arrival of the request's head until
// its answer has been written. All methods may be called concurrently, except that only one goroutine may call Accept.
type Listener struct {
	*net.TCPListener
	limit    int                       // the maximum number of open connections
	cutsBusy bool                      // see CutBusy; does not change once connections are accepted
	stopping atomic.Pointer[time.Time] // since when, or nil
	stopped  chan struct{}             // closed when a stopping listener was closed
	waiting  atomic.Bool               // see Waiting
	patience time.Duration             // see patience; does not change once connections are accepted

	mu      sync.Mutex
	changed sync.Cond // a connection was closed or became idle, or the listener was closed
	closed  bool
	open    int
	ending  int       // open connections that we have closed, but the server has not yet given up
	evicted int       // connections that were closed to make room
	idle    list.List // of *conn; the first has been silent the longest
	all     list.List // of *conn, if cutsBusy; the first was accepted first
	alarm   *time.Timer

	fullSince time.Time // since when each new connection has had to wait; zero: the last one has not
}

// settled is the time for which a connection must have been silent before it may be closed to make room. It lets new
// connections send a request before others displace them, when many arrive at once or all others are busy.
const settled = 200 * time.Millisecond

// patience is how long a listener that has become full waits for answers to end connections, see Waiting, before it closes
// idle ones: a request may be under way to one that looks idle here, and would be lost. A listener that stays full does not
// wait again, so that only the first new connection is delayed by connections that nobody uses.
const patience = 500 * time.Millisecond

// grace is the minimum time for which a connection is served before a request in progress may be cut off to make room:
// much longer than a request takes whose client reads the answer.
const grace = 50 * time.Millisecond

// conn is an accepted connection, below TLS.
type conn struct {
	*net.TCPConn
	listener *Listener

	// Guarded by listener.mu.
	place  *list.Element // in listener.idle; nil while a request is in progress, and when ending
	since  *list.Element // in listener.all; nil when ending
	heard  time.Time     // when it was last accepted, answered, or sent something
	born   time.Time     // when it was accepted
	kept   bool          // a request was answered on it
	ending bool
}

// Bound returns a listener that keeps at most limit connections open at once; limit must be at least 1.
func Bound(l *net.TCPListener, limit int) *Listener {
	bounded := &Listener{TCPListener: l, limit: limit, stopped: make(chan struct{}), patience: patience}
	bounded.changed.L = &bounded.mu
	bounded.alarm = time.AfterFunc(time.Hour, bounded.wake)
	bounded.alarm.Stop()
	return bounded
}

// CutBusy makes a full listener without silent connections close the oldest one, even if a request is in progress on it.
// It is for requests of which the next one matters more than the last, such as probes: otherwise clients that send
// requests, and do not read the answers, would keep all others waiting. It must be called before Accept.
func (l *Listener) CutBusy() { l.cutsBusy = true }

// Waiting reports whether a new connection waits for room. Every answer should then say Connection: close, which ends a
// connection without losing a request.
func (l *Listener) Waiting() bool { return l.waiting.Load() }

// Accept waits for a connection. If the limit is reached, it waits for patience until an answer ends a connection (see
// Waiting), then closes the idle connection that has been silent the longest. If none is idle, it waits on: a request in progress is not cut off (except with CutBusy), and a connection that
// waits in the kernel's queue uses no resources here and is served a little later, whereas closing it would fail its
// review.
func (l *Listener) Accept() (net.Conn, error) {
	tcp, err := l.next()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteRoom()
	defer l.waiting.Store(false)
	for l.open >= l.limit && !l.closed {
		if l.open-l.ending >= l.limit {
			l.makeRoom()
		}
		l.changed.Wait()
	}
	if l.closed {
		_ = tcp.Close()
		return nil, net.ErrClosed
	}
	c := &conn{TCPConn: tcp, listener: l, born: time.Now()}
	if l.cutsBusy {
		c.since = l.all.PushBack(c)
	}
	l.open++
	l.markIdle(c)
	return c, nil
}

// noteRoom notes whether a new connection has to wait. The caller holds the lock.
func (l *Listener) noteRoom() {
	switch full := l.open >= l.limit; {
	case !full:
		l.fullSince = time.Time{}
	case l.fullSince.IsZero():
		l.fullSince = time.Now()
		fallthrough
	default:
		l.waiting.Store(true)
	}
}

// Close closes the listener, but none of the accepted connections.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Broadcast()
	return l.TCPListener.Close()
}

// State tracks the state of a connection. It must be the ConnState of the server.
func (l *Listener) State(given net.Conn, state http.ConnState) {
	if over, ok := given.(*tls.Conn); ok {
		given = over.NetConn()
	}
	c := given.(*conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive:
		l.unmarkIdle(c)
	case http.StateIdle:
		c.kept = true
		l.markIdle(c)
		l.changed.Broadcast()
	case http.StateClosed, http.StateHijacked:
		l.unmarkIdle(c)
		l.forget(c)
		l.open--
		if c.ending {
			l.ending--
		}
		l.changed.Broadcast()
	}
}

// Read reads, and records that the connection is not silent.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		if c.place != nil {
			c.heard = time.Now()
			c.listener.idle.MoveToBack(c.place)
		}
	}
	return n, err
}

// unread reports whether the client has sent something that the server has not read yet.
func (c *conn) unread() bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	_ = raw.Control(func(fd uintptr) {
		n, _, _ = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return n > 0
}

// hearUnread moves idle connections with data that is not read yet to the end of the list: they are about to be busy. A client that needs more
// connections than before first uses all that it has: its requests arrive with the new connection.
func (l *Listener) hearUnread() {
	for range l.idle.Len() {
		c := l.idle.Front().Value.(*conn)
		if time.Since(c.heard) < settled || !c.unread() {
			return
		}
		c.heard = time.Now()
		l.idle.MoveToBack(c.place)
	}
}

// makeRoom closes the idle connection that has been silent the longest, or else, with CutBusy, the oldest one. If that
// may only be closed later, it sets the alarm. The caller holds the lock.
func (l *Listener) makeRoom() {
	l.hearUnread()
	given, wait := l.first()
	switch {
	case given == nil:
	case wait > 0:
		l.alarm.Reset(wait)
	default:
		l.end(given)
		l.evicted++
	}
}

// first returns the connection that may be closed first, and how long to wait before; nil if there is none.
func (l *Listener) first() (given *conn, wait time.Duration) {
	if front := l.idle.Front(); front != nil {
		given = front.Value.(*conn)
		wait = settled - time.Since(given.heard)
		if !l.cutsBusy {
			wait = max(wait, l.patience-time.Since(l.fullSince))
		}
	}
	if front := l.all.Front(); front != nil && (given == nil || wait > 0) {
		oldest := front.Value.(*conn)
		return oldest, grace - time.Since(oldest.born)
	}
	return given, wait
}

// wake makes Accept check again. Taking the lock makes sure that Accept does not miss the signal on its way into Wait.
func (l *Listener) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}

// markIdle adds a connection to the idle ones. The caller holds the lock, here and below.
func (l *Listener) markIdle(c *conn) {
	if c.place == nil && !c.ending {
		c.heard = time.Now()
		c.place = l.idle.PushBack(c)
	}
}

func (l *Listener) unmarkIdle(c *conn) {
	if c.place != nil {
		l.idle.Remove(c.place)
		c.place = nil
	}
}

// forget removes a connection from those that may be closed.
func (l *Listener) forget(c *conn) {
	if c.since != nil {
		l.all.Remove(c.since)
		c.since = nil
	}
}

// end closes a connection. It counts as open until the server's goroutine has noticed, so that the limit also covers the
// resources it still holds.
func (l *Listener) end(c *conn) {
	l.unmarkIdle(c)
	l.forget(c)
	c.ending = true
	l.ending++
	_ = c.Close()
}

// Open returns the number of open connections.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Evicted returns the number of idle connections that were closed to make room.
func (l *Listener) Evicted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.evicted
}
