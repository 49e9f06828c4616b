// Package connections limits the number of open connections of an HTTP server, and closes them without losing a
// request.
//
// HTTP/1.1 has no safe way to close an idle connection: its client may be sending a request, which then has no answer, and
// an API server does not repeat a review, because it is a POST. The server cannot know, since the client may have written
// what has not arrived. So connections end with an answer that says Connection: close where possible. At most half of them
// are kept after an answer (see Crowded). The other half ends with answers, or has sent no request and gives way: new
// connections find room whoever holds the kept ones. These give way only if there was no room for long. What remains is a
// request sent to a connection just when it gives way after its silence, so a limit should be twice what clients need.
package connections

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Listener accepts connections for one http.Server, whose ConnState must be its State. The number of open connections
// is limited. A connection is idle unless a request is in progress on it: from the arrival of the request's head until
// its answer has been written. All methods may be called concurrently, except that only one goroutine may call Accept.
type Listener struct {
	*net.TCPListener
	limit            int                       // the maximum number of open connections
	cutsBusy         bool                      // see CutBusy; does not change once connections are accepted
	cutsUnproven     bool                      // see CutUnproven; neither does this
	turns, strangers chan struct{}             // see turns; strangers are sources that are not known, if cutsUnproven
	stopping         atomic.Pointer[time.Time] // since when, or nil
	stopped          chan struct{}             // closed when a stopping listener was closed
	patience         time.Duration             // see patience
	unused           time.Duration             // see KeepUnused; 0 for the server's own limit

	mu      sync.Mutex
	changed sync.Cond // a connection was closed or became idle, or the listener was closed
	closed  bool
	open    int
	ending  int       // open connections that we have closed, but the server has not yet given up
	evicted int       // connections that were closed to make room
	fresh   list.List // idle, of *conn that have had no answer yet; the first has been silent the longest
	kept    list.List // idle, of *conn that have had one; the first has been silent the longest
	all     list.List // of *conn that may be closed even if busy, see CutBusy and CutUnproven; in the order of begun
	sources map[netip.Prefix]*source
	asked   time.Time // when the new connection arrived that Accept returns next; zero if cutsBusy
	asking  *source   // where that comes from
	flooded time.Time // see flood; zero before the first one
	alarm   *time.Timer
}

// conn is an accepted connection, below TLS.
type conn struct {
	*net.TCPConn
	listener *Listener
	unused   *unused // nil from the first request on
	source   *source
	turns    atomic.Pointer[turns] // while its handshake computes; nil otherwise
	proven   bool                  // see Proven, which alone writes it
	gone     chan struct{}         // closed when it is
	closing  sync.Once             // closes gone

	// Guarded by listener.mu.
	place  *list.Element // in listener.fresh or kept; nil while a request is in progress, and when ending
	since  *list.Element // in listener.all; nil when ending
	heard  time.Time     // when it was last accepted, answered, or sent something
	begun  time.Time     // when it was accepted; see begins
	kept   bool          // a request was answered on it
	ending bool
}

// Bound returns a listener that keeps at most limit connections open at once; limit must be at least 1.
func Bound(l *net.TCPListener, limit int) *Listener {
	processors := runtime.GOMAXPROCS(0)
	bounded := &Listener{TCPListener: l, limit: limit, stopped: make(chan struct{}), patience: patience,
		turns: make(chan struct{}, processors), strangers: make(chan struct{}, (processors+1)/2), sources: map[netip.Prefix]*source{}}
	bounded.changed.L = &bounded.mu
	bounded.alarm = time.AfterFunc(time.Hour, bounded.wake)
	bounded.alarm.Stop()
	return bounded
}

// CutBusy makes a full listener without silent connections close the oldest one, even if a request is in progress on it.
// It is for requests of which the next one matters more than the last, such as probes: otherwise clients that send
// requests, and do not read the answers, would keep all others waiting. It must be called before Accept.
func (l *Listener) CutBusy() { l.cutsBusy = true }

// Crowded reports whether more than half of the connections are open that may be. Every answer must then say Connection:
// close, which ends a connection without losing a request. With CutUnproven, those that give way first do not count.
func (l *Listener) Crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutsUnproven {
		return l.open-l.ending-l.all.Len() > l.limit/2
	}
	return l.open > l.limit/2
}

// Accept waits for a connection. If the limit is reached, it first waits for one to end, and then closes those that have
// been silent the longest without having sent a request, or else a kept one. If none is idle, it goes on waiting: a request
// in progress is not cut off (except with CutBusy or CutUnproven), and a connection that waits in the kernel's queue uses no
// resources here and is served a little later, whereas closing it would fail its review.
func (l *Listener) Accept() (net.Conn, error) {
	tcp, err := l.next()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cutsBusy {
		l.asked = time.Now()
	}
	l.asking = l.enter(tcp.RemoteAddr())
	for l.open >= l.limit && !l.closed {
		if l.open-l.ending >= l.limit {
			l.makeRoom()
		}
		l.changed.Wait()
	}
	if l.closed {
		l.leave(l.asking)
		_ = tcp.Close()
		return nil, net.ErrClosed
	}
	c := &conn{TCPConn: tcp, listener: l, unused: l.newUnused(), source: l.asking, begun: time.Now(), gone: make(chan struct{})}
	if l.cutsBusy || l.cutsUnproven {
		c.since = l.all.PushBack(c)
	}
	l.open++
	l.markIdle(c)
	return c, nil
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
	c := connOf(given)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.unused != nil {
			c.unused.ready.Store(given == net.Conn(c)) // without TLS
		}
	case http.StateActive:
		c.unused = nil
		l.unmarkIdle(c)
	case http.StateIdle:
		l.unmarkIdle(c)
		c.kept = true
		l.markIdle(c)
		l.changed.Broadcast()
	case http.StateClosed, http.StateHijacked:
		l.unmarkIdle(c)
		l.forget(c)
		l.open--
		l.leave(c.source)
		if c.ending {
			l.ending--
		}
		l.changed.Broadcast()
	}
}

// connOf returns the connection below TLS.
func connOf(given net.Conn) *conn {
	if over, secured := given.(*tls.Conn); secured {
		given = over.NetConn()
	}
	return given.(*conn)
}

// Read reads, and records that the connection is not silent. In a handshake it waits for its turn to compute.
func (c *conn) Read(p []byte) (int, error) {
	c.endTurn()
	n, err := c.TCPConn.Read(p)
	if n == 0 {
		return n, err
	}
	c.begin()
	c.listener.hear(c)
	if late := c.compute(n); late != nil {
		return 0, late
	}
	return n, err
}

// hear records that an idle connection is not silent.
func (l *Listener) hear(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.place != nil {
		c.heard = time.Now()
		l.idle(c).MoveToBack(c.place)
	}
}

// wake makes Accept check again. Taking the lock makes sure that Accept does not miss the signal on its way into Wait.
func (l *Listener) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Broadcast()
}

// idle returns the list for a connection that is idle. The caller holds the lock, here and below.
func (l *Listener) idle(c *conn) *list.List {
	if c.kept {
		return &l.kept
	}
	return &l.fresh
}

// markIdle adds a connection to the idle ones.
func (l *Listener) markIdle(c *conn) {
	if c.place == nil && !c.ending {
		c.heard = time.Now()
		c.place = l.idle(c).PushBack(c)
	}
}

func (l *Listener) unmarkIdle(c *conn) {
	if c.place != nil {
		l.idle(c).Remove(c.place)
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
