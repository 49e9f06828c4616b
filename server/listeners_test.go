package server

import (
	"net"
	"net/http"
	"testing"
	"time"

	"usher.dev/usher/server/connections"
)

// TestServersHaveTimeLimits: a client that is silent or slow holds a connection for a limited time, and an API server
// that waits as long as it may (30 s) gets its answer before the connection is closed.
func TestServersHaveTimeLimits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	const longest = 30 * time.Second // that a webhook may be waited for
	s := newServer(nil, connections.Bound(l.(*net.TCPListener), 1), nil)
	if s.ReadHeaderTimeout <= 0 || s.ReadHeaderTimeout > 10*time.Second {
		t.Errorf("a header may take %v", s.ReadHeaderTimeout)
	}
	if s.ReadTimeout <= longest || s.WriteTimeout <= longest || s.ReadTimeout > time.Minute || s.WriteTimeout > time.Minute {
		t.Errorf("a request may take %v to be read and %v to be answered, want more than %v, and less than a minute", s.ReadTimeout, s.WriteTimeout, longest)
	}
	const kept = 90 * time.Second // by an API server
	if s.IdleTimeout <= kept || s.IdleTimeout > 5*time.Minute || s.MaxHeaderBytes <= 0 || s.MaxHeaderBytes > 64<<10 {
		t.Errorf("an idle connection is kept for %v, headers may have %d bytes", s.IdleTimeout, s.MaxHeaderBytes)
	}
	if s.ConnState == nil {
		t.Error("connections are not counted")
	}
}

// TestAnswersEndConnections: when more than half of the connections are open, an answer ends its connection.
func TestAnswersEndConnections(t *testing.T) {
	for limit, ends := range map[int]bool{1: true, 2: false} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		bounded := connections.Bound(l.(*net.TCPListener), limit)
		s := newServer(givingWay(bounded, http.NotFoundHandler()), bounded, nil)
		go func() { _ = s.Serve(bounded) }()
		t.Cleanup(func() { _ = s.Close() })
		r, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.Close != ends {
			t.Errorf("limit %d: an answer ends its connection: %v, want %v", limit, r.Close, ends)
		}
	}
}
