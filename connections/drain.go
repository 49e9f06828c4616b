package connections

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

const (
	// A stopping listener is closed when nothing was in the kernel's queue for queueLull, and that so many times in a row: when the
	// goroutine is not scheduled for so long, it has not looked.
	queueLull, queueLulls = time.Millisecond, 3
	// queueTime is the longest that a stopping listener goes on accepting.
	queueTime = time.Second
	// A kept connection that has been silent for a second is taken to have nothing on its way: a request that meets the close is
	// lost, as a client may not send a POST twice. The second is counted in turns of Drain, for what arrives while the process
	// gets no CPU is not read: a turn that is late counts once.
	turn, quietTurns = 10 * time.Millisecond, 100
)

// Drain ends the listener and its connections, and loses no request. Every answer must say Connection: close by now.
//
// First it accepts what is in the kernel's queue, and closes the listener: who connects later is refused before he has sent
// anything. Then the server goes on: a connection ends with its next answer. One that is idle after an earlier answer is closed
// when it has been silent for a second; one that has not sent a request yet is left to the server's own time limits for that. Drain
// returns when no connection is left, or ctx's error when it ends before.
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

// endSilent closes the kept connections that are idle and have not been heard of since.
func (l *Listener) endSilent(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.idle.Front(); e != nil; {
		c := e.Value.(*conn)
		e = e.Next()
		if c.heard.After(since) {
			return
		}
		if c.kept {
			l.end(c)
		}
	}
}

// stop makes Accept close the listener when the queue is empty. The deadline wakes it up, and is its own from then on.
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

// next accepts the next connection in the kernel's queue.
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
