package connections

import (
	"container/list"
	"syscall"
	"time"
)

// A new connection that finds no room has waited for patience before another one is closed, which must have been silent
// meanwhile. Usually answers make room before. A client that needs more connections than before uses all that it has, and
// its requests on these may arrive after the new connection. And one that opens hundreds may have no CPU for some of them
// during the handshake, or before the first request. With an API server, 150 clients and a limit of 300, two runs lost 133
// reviews when these gave way after settled, and none with patience.
//
// After a flood, they do give way after settled. Otherwise an attacker who opens 30 connections a second and sends nothing after
// the handshake would keep out nine of ten callers, at a limit of 20. A flood is when more than a quarter of the limit is closed
// at once.
const settled, patience, flood = 200 * time.Millisecond, time.Second, 10 * time.Second

// grace is the minimum time for which a connection is served before a request in progress may be cut off to make room:
// much longer than a request takes whose client reads the answer.
const grace = 50 * time.Millisecond

// hearUnread moves connections that have sent what is not read yet to the end of the given idle ones.
func hearUnread(idle *list.List) {
	for range idle.Len() {
		c := idle.Front().Value.(*conn)
		if time.Since(c.heard) < settled || !c.unread() {
			return
		}
		c.heard = time.Now()
		idle.MoveToBack(c.place)
	}
}

// unread reports whether the client has sent something that the server has not read yet: much, where the process gets little CPU. In one
// that ran for 10 ms of each 100 ms, Drain lost 56 of 9,600 requests around the second of silence, and 152 without this.
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

// makeRoom closes the connection that gives way first. If that may only be closed later, it sets the alarm. The caller
// holds the lock.
func (l *Listener) makeRoom() {
	hearUnread(&l.fresh)
	hearUnread(&l.kept)
	given, wait := l.first()
	switch {
	case given == nil:
	case wait > 0:
		l.alarm.Reset(wait)
	default:
		l.evict(given)
		l.evictFresh()
	}
}

// evictFresh closes the connections that have sent no request, or are not proven, and may be closed now, up to half of the
// limit: the next new ones must not wait one after the other.
func (l *Listener) evictFresh() {
	patience := l.freshPatience()
	for n := range l.limit/2 - 1 {
		hearUnread(&l.fresh)
		given, wait := l.firstFresh(patience)
		if given == nil || wait > 0 {
			return
		}
		l.evict(given)
		if n+2 > l.limit/4 { // with the one that was closed before
			l.flooded = time.Now()
		}
	}
}

// freshPatience returns how long a connection that has sent no request must have been silent before it is closed.
func (l *Listener) freshPatience() time.Duration {
	if l.cutsBusy || time.Since(l.flooded) < flood {
		return settled
	}
	return l.patience
}

func (l *Listener) evict(c *conn) {
	l.end(c)
	l.evicted++
}

// silent returns how long a connection has been silent while the new one waited.
func (l *Listener) silent(c *conn) time.Duration {
	return min(time.Since(c.heard), time.Since(l.asked))
}

// first returns the connection that may be closed first, and how long to wait before; nil if there is none.
func (l *Listener) first() (given *conn, wait time.Duration) {
	given, wait = l.firstFresh(l.freshPatience())
	if front := l.kept.Front(); front != nil && (given == nil || wait > 0) {
		kept := front.Value.(*conn)
		if until := l.patience - l.silent(kept); given == nil || until < wait {
			given, wait = kept, until
		}
	}
	if front := l.all.Front(); l.cutsBusy && front != nil && (given == nil || wait > 0) {
		oldest := front.Value.(*conn)
		return oldest, grace - time.Since(oldest.begun)
	}
	return given, wait
}

// firstFresh is first for connections that have sent no request, or are not proven.
func (l *Listener) firstFresh(patience time.Duration) (given *conn, wait time.Duration) {
	if l.cutsUnproven {
		return l.firstUnproven(patience)
	}
	if front := l.fresh.Front(); front != nil {
		given = front.Value.(*conn)
		wait = patience - l.silent(given)
	}
	return given, wait
}
