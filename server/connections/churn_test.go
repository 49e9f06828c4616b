package connections

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMoreClientsThanConnections: no request of API servers is lost, although all of their clients together need more connections
// than there may be. Each webhook has a pool of its own there, and their requests come in bursts: connections that were idle before
// get a request while others are opened. A POST whose connection was closed is not repeated. Only bursts are judged: where the machine
// makes the requests trickle for longer, a client may pick a silent connection just when it has to give way.
//
// So it is, too, where others than known callers give way first, although no caller is known at first.
func TestMoreClientsThanConnections(t *testing.T) {
	t.Run("any", func(t *testing.T) { testMoreClients(t) })
	t.Run("known callers", func(t *testing.T) {
		testMoreClients(t, (*Listener).CutUnproven, func(l *Listener) { l.KeepUnused(time.Minute) })
	})
}

func testMoreClients(t *testing.T, prepare ...func(*Listener)) {
	s := serve(t, 6, prepare...)
	s.giving.Store(true)
	var pools [4]*http.Client
	for i := range pools {
		pools[i] = late(t, 3*time.Millisecond)
	}
	bursts := 0
	for round := 0; bursts < 20 && round < 100; round++ {
		began := time.Now()
		lost := s.burst(pools[:], round)
		short, timeout := time.Since(began) < settled*3/2, errors.Is(lost, context.DeadlineExceeded)
		if short {
			bursts++
		}
		if lost != nil && (short || timeout) {
			t.Errorf("a request was lost: %v", lost)
		}
		time.Sleep(settled + 10*time.Millisecond)
	}
	if bursts < 5 && !t.Failed() {
		t.Skipf("only %d of 100 bursts were short: the machine is too busy", bursts)
	}
}

// TestSlowClients: connections whose clients are slow with the first request do not give way to others while that may still come.
func TestSlowClients(t *testing.T) {
	s := serve(t, 6, func(l *Listener) { l.patience = time.Minute })
	s.giving.Store(true)
	if err := s.burst([]*http.Client{late(t, 2*settled)}, 0); err != nil || s.Evicted() != 0 {
		t.Errorf("%d gave way, and a request was lost: %v", s.Evicted(), err)
	}
}

// TestFlood: while many silent connections come, those give way soon.
func TestFlood(t *testing.T) {
	s := serve(t, 8, func(l *Listener) { l.patience = 2 * settled })
	for i := range 8 {
		s.dial(t, i+1)
	}
	s.dial(t, 5)
	s.mu.Lock()
	if s.flooded.IsZero() || s.freshPatience() != settled {
		t.Errorf("%d gave way, which is no flood", s.evicted)
	}
	inFlood(s.Listener)
	s.mu.Unlock()
	for i := range 3 {
		s.dial(t, i+6)
	}
	last := s.dial(t, 5)
	if last.send(fast); !last.answered() {
		t.Error("in a flood, a new one was not answered")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flooded = time.Now().Add(-flood); s.freshPatience() != s.patience {
		t.Error("the flood does not end")
	}
}

// inFlood makes connections that have sent no request give way soon, and those kept after an answer never.
func inFlood(l *Listener) { l.flooded, l.patience = time.Now().Add(time.Hour), time.Hour }

// burst sends requests through the pools, and returns the error of one that was lost.
func (s *served) burst(pools []*http.Client, round int) error {
	var clients sync.WaitGroup
	lost := make(chan error, 72)
	for i := range 12 {
		clients.Go(func() {
			for n := range 6 {
				if err := s.post(pools[(i+n/2+round)%len(pools)]); err != nil {
					lost <- err
				}
			}
		})
	}
	clients.Wait()
	close(lost)
	return <-lost
}

// late returns a client far away, or without CPU: what it has sent arrives later.
func late(t *testing.T, by time.Duration) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 25, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return lateConn{c, by}, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

type lateConn struct {
	net.Conn
	by time.Duration
}

func (c lateConn) Write(p []byte) (int, error) {
	sent := bytes.Clone(p)
	time.AfterFunc(c.by, func() { _, _ = c.Conn.Write(sent) })
	return len(p), nil
}

func (s *served) post(c *http.Client) error {
	r, err := c.Post("http://"+s.Listener.Addr().String()+"/known", "application/json", strings.NewReader(`{"kind": "AdmissionReview"}`))
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	_, err = io.Copy(io.Discard, r.Body)
	return err
}
