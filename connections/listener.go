// Package connections bounds the connections that an HTTP server has open, and ends them without losing a request.
package connections

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Listener accepts connections for one http.Server, whose ConnState has to be its State. At most so many are open at once. A
// connection is idle unless a request is under way on it, which is so from the moment that the request's head has arrived until
// its answer was written. All methods may be called at the same time, except that one goroutine calls Accept.
type Listener struct {
	*net.TCPListener
	most     int
	stopping atomic.Pointer[time.Time] // since when, or nil
	stopped  chan struct{}             // closed when a stopping listener was closed

	mu      sync.Mutex
	changed sync.Cond // a connection was closed or fell idle, or the listener was closed
	closed  bool
	open    int
	ending  int       // of the open ones: closed by us, but not yet given up by the server
	evicted int       // how many were closed to make room
	idle    list.List // of *conn, first the one that has been silent for longest
	alarm   *time.Timer
}

// settled is how long a connection must have been silent before it may give way. So new ones do not drive out each other before
// they could send a request, when they are many at once or the others are busy.
const settled = 200 * time.Millisecond

// conn is a connection as the server has it, below TLS.
type conn struct {
	*net.TCPConn
	listener *Listener

	// Guarded by listener.mu.
	place  *list.Element // in listener.idle; nil while a request is under way, and when ending
	heard  time.Time     // when it was accepted, answered, or last sent something, whichever was last
	kept   bool          // a request was answered on it
	ending bool
}

// Bound makes a listener that keeps at most so many connections, at least 1, open at once.
func Bound(l *net.TCPListener, most int) *Listener {
	bounded := &Listener{TCPListener: l, most: most, stopped: make(chan struct{})}
	bounded.changed.L = &bounded.mu
	bounded.alarm = time.AfterFunc(time.Hour, bounded.wake)
	bounded.alarm.Stop()
	return bounded
}

// Accept waits for a connection. When there are as many as may be, the idle one that has been silent for longest is closed for it.
// When none is idle, Accept waits: a request under way is never cut off, and who waits in the kernel's queue takes nothing here and
// is answered a little later, where closing the new one would be a review that failed.
func (l *Listener) Accept() (net.Conn, error) {
	tcp, err := l.next()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open >= l.most && !l.closed {
		if l.open-l.ending >= l.most {
			l.makeRoom()
		}
		l.changed.Wait()
	}
	if l.closed {
		_ = tcp.Close()
		return nil, net.ErrClosed
	}
	c := &conn{TCPConn: tcp, listener: l}
	l.open++
	l.rest(c)
	return c, nil
}

// Close closes the listener, but no connection that was accepted.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Broadcast()
	return l.TCPListener.Close()
}

// State keeps account of a connection: it is the ConnState of the server.
func (l *Listener) State(given net.Conn, state http.ConnState) {
	if over, ok := given.(*tls.Conn); ok {
		given = over.NetConn()
	}
	c := given.(*conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive:
		l.leaveIdle(c)
	case http.StateIdle:
		c.kept = true
		l.rest(c)
		l.changed.Broadcast()
	case http.StateClosed, http.StateHijacked:
		l.leaveIdle(c)
		l.open--
		if c.ending {
			l.ending--
		}
		l.changed.Broadcast()
	}
}

// Read notes that the connection is not silent.
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

// makeRoom closes the idle connection that has been silent for longest, or sees to it that Accept tries again in time. The caller
// holds the lock.
func (l *Listener) makeRoom() {
	front := l.idle.Front()
	if front == nil {
		return
	}
	oldest := front.Value.(*conn)
	if wait := settled - time.Since(oldest.heard); wait > 0 {
		l.alarm.Reset(wait)
		return
	}
	l.end(oldest)
	l.evicted++
}

// wake makes Accept look again. The lock makes sure that it does not miss the call on its way into Wait.
func (l *Listener) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}

// rest puts a connection among the idle ones. The caller holds the lock, here and below.
func (l *Listener) rest(c *conn) {
	if c.place == nil && !c.ending {
		c.heard = time.Now()
		c.place = l.idle.PushBack(c)
	}
}

func (l *Listener) leaveIdle(c *conn) {
	if c.place != nil {
		l.idle.Remove(c.place)
		c.place = nil
	}
}

// end closes an idle connection. It counts as open until the server's goroutine has noticed, so that the bound holds for what
// this takes.
func (l *Listener) end(c *conn) {
	l.leaveIdle(c)
	c.ending = true
	l.ending++
	_ = c.Close()
}

// Open is the number of connections that are open.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Evicted is the number of idle connections that were closed to make room.
func (l *Listener) Evicted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.evicted
}
