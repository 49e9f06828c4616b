package connections

import (
	"container/list"
	"context"
	"errors"
	"net"
	"os"
	"time"
)

const (
	// A stopping listener is closed after the kernel's queue has been empty for queueLull, queueLulls times in a row.
	// Once is not enough: if the goroutine was not scheduled for that long, it has not looked.
	queueLull, queueLulls = time.Millisecond, 3
	// queueTime is the maximum time for which a stopping listener continues to accept.
	queueTime = time.Second
	// An idle connection that has been silent for a second (quietTurns turns) is assumed to have no request under way: a
	// request that arrives at a closed connection is lost, because a client may not repeat a POST. The second is
	// counted in turns of Drain, since nothing is read while the process gets no CPU: a late turn counts only once.
	turn, quietTurns = 10 * time.Millisecond, 100
)

// Drain closes the listener and its connections without losing a request. Before it is called, every answer must say
// Connection: close.
//
// It first accepts the connections in the kernel's queue, then closes the listener, so that later clients are refused
// before they have sent anything. The server continues, and each connection ends with its next answer. One that is idle,
// after an earlier answer or, see KeepUnused, without a request so far, is closed after a second of silence; during a handshake the
// server's own timeout applies. Drain returns nil when no connection is left, or ctx's error if ctx ends first.
func (l *Listener) Drain(ctx context.Context) error {
	l.stop()
	tick := time.NewTicker(turn)
	defer tick.Stop()
	for turns := []time.Time{}; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		turns = append(turns, time.Now())
		if n := len(turns) - quietTurns; n > 0 {
			l.endSilent(turns[n-1])
		}
		if l.isStopped() && l.Open() == 0 {
			return nil
		}
	}
}

// endSilent closes the idle connections that have been silent since the given time.
func (l *Listener) endSilent(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, idle := range []*list.List{&l.fresh, &l.kept} {
		for e := idle.Front(); e != nil; {
			c := e.Value.(*conn)
			e = e.Next()
			if c.heard.After(since) {
				break
			}
			if (idle == &l.kept || c.waitsUnused()) && !c.unread() {
				l.end(c)
			}
		}
	}
}

// stop makes Accept close the listener as soon as the queue is empty. Setting the deadline wakes up Accept, which from
// then on sets it itself.
func (l *Listener) stop() {
	now := time.Now()
	_ = l.SetDeadline(now)
	l.stopping.Store(&now)
}

func (l *Listener) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// next accepts the next connection in the kernel's queue. A stopping listener is closed when there is none left.
func (l *Listener) next() (*net.TCPConn, error) {
	for lulls := 0; lulls < queueLulls; {
		since := l.stopping.Load()
		if since != nil {
			if time.Since(*since) > queueTime {
				break
			}
			_ = l.SetDeadline(time.Now().Add(queueLull))
		}
		tcp, err := l.AcceptTCP()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return tcp, err
		}
		if since != nil {
			lulls++
		}
	}
	_ = l.Close()
	close(l.stopped)
	return nil, net.ErrClosed
}
