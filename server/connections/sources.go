package connections

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

// maxHandshake is the maximum number of bytes that a client sends in its TLS handshake: a key share, a session ticket with
// its certificates, and four certificates. More would be parsed before anything else is known of the client.
const maxHandshake = 40 << 10

var errLongHandshake = errors.New("the handshake is too long: a client may send a certificate and a few intermediates, 40 KiB in all")

// source is where connections come from: an IPv4 address, or an IPv6 network of 64 bits.
type source struct {
	prefix netip.Prefix
	known  bool          // a known caller has sent a request from there
	open   int           // connections
	turns  chan struct{} // see turns
}

// maxKnown is the number of known sources that are remembered while they have no connection.
const maxKnown = 1000

// CutUnproven makes a full listener first close connections on which no known caller has sent a request, see Proven, even
// if they are not silent: those of sources from which none ever has, which give way to new connections of the other sources after
// settled, and then the others. Handshakes of such sources do not delay those of known ones. It must be called before Accept.
func (l *Listener) CutUnproven() { l.cutsUnproven = true }

// connKey is the key of a request's connection in its context.
type connKey struct{}

// Context is the ConnContext of a server whose handler calls Proven.
func (l *Listener) Context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// Proven records that the request with this context was sent by a known caller. Only the request's handler may call it.
func Proven(ctx context.Context) {
	c, found := ctx.Value(connKey{}).(*conn)
	if !found || c.proven {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.proven, c.source.known = true, true
	if c.listener.cutsUnproven {
		c.listener.forget(c)
	}
}

// enter returns the source of a connection, and counts it. The caller holds the lock, here and below.
func (l *Listener) enter(remote net.Addr) *source {
	address := remote.(*net.TCPAddr).AddrPort().Addr().Unmap()
	prefix, _ := address.Prefix(min(address.BitLen(), 64))
	s := l.sources[prefix]
	if s == nil {
		s = &source{prefix: prefix, turns: make(chan struct{}, cap(l.turns))}
		l.sources[prefix] = s
	}
	s.open++
	return s
}

// leave counts the end of a connection. A source without one is forgotten, unless it is known.
func (l *Listener) leave(s *source) {
	if s.open--; s.open == 0 && (!s.known || len(l.sources) > maxKnown+l.limit) {
		delete(l.sources, s.prefix)
	}
}

// begins notes that an unproven connection has begun its next step: to compute in its handshake, to wait for its first request, or to
// send that. Each step has its time before the connection gives way, however slowly the client sends.
func (l *Listener) begins(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutsUnproven && c.since != nil {
		c.begun = time.Now()
		l.all.MoveToBack(c.since)
	}
}

// firstUnproven returns the connection in l.all that gives way first, and how long to wait before: the first of a source that is not
// known, or else the first of all, without those of which the first request is not read yet; nil if there is none. While the new
// connection waits for less than patience, only those that are not known give way, and only to one that is.
func (l *Listener) firstUnproven(patience time.Duration) (first *conn, wait time.Duration) {
	for e := l.all.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conn)
		if c.source.known && first != nil || c.waitsUnused() && c.unread() {
			continue
		}
		if first = c; !c.source.known {
			break
		}
	}
	switch {
	case first == nil:
		return nil, 0
	case l.asking.known && !first.source.known:
		return first, settled - time.Since(first.begun)
	}
	return first, patience - min(time.Since(first.begun), time.Since(l.asked))
}

// turns are held while a handshake computes, first one of its source and then one of all: there are as many of each as processors. So
// the queue for those of all has no more handshakes of a source than that, and a source with many connections waits for itself.
type turns [2]chan struct{}

func (l *Listener) turnsOf(s *source) *turns {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutsUnproven && !s.known {
		return &turns{s.turns, l.strangers}
	}
	return &turns{s.turns, l.turns}
}

// compute waits for the connection's turn to compute, if its client has just sent n bytes of its handshake.
func (c *conn) compute(n int) error {
	if c.unused == nil || c.unused.ready.Load() {
		return nil
	}
	if c.unused.sent += n; c.unused.sent > maxHandshake {
		return errLongHandshake
	}
	late := time.NewTimer(time.Until(c.unused.until))
	defer late.Stop()
	mine := c.listener.turnsOf(c.source)
	for i, free := range mine {
		var err error
		select {
		case free <- struct{}{}:
			continue
		case <-late.C:
			err = os.ErrDeadlineExceeded
		case <-c.gone:
			err = net.ErrClosed
		}
		if i > 0 {
			<-mine[0]
		}
		return err
	}
	c.turns.Store(mine)
	if c.unused.sent == n {
		c.listener.begins(c)
	}
	return nil
}

// endTurn ends the connection's turn, if it has one: it is about to wait for its client, or done.
func (c *conn) endTurn() {
	if mine := c.turns.Swap(nil); mine != nil {
		<-mine[1]
		<-mine[0]
	}
}

// Write writes. A client that reads slowly has no turn meanwhile.
func (c *conn) Write(p []byte) (int, error) {
	c.endTurn()
	return c.TCPConn.Write(p)
}

// Close closes the connection.
func (c *conn) Close() error {
	c.closing.Do(func() { close(c.gone) })
	c.endTurn()
	return c.TCPConn.Close()
}
