package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher.dev/usher/server/connections"
	"usher.dev/usher/test/clustertest"
)

// headTime is the ReadHeaderTimeout of the server in these tests: long enough for a handshake on a busy machine.
const headTime = time.Second

// TestUnusedConnection: an API server may send a review on a connection that it opened long before and has not used. It does
// not repeat a POST: if the server closes the connection meanwhile, as http.Server does by itself, the review is lost.
func TestUnusedConnection(t *testing.T) {
	for name, c := range map[string]struct {
		build func(http.Handler, *connections.Listener, *stdlog.Logger) *http.Server
		lost  bool
	}{"http.Server": {newServer, true}, "newReviewServer": {newReviewServer, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveTLS(t, c.build)
			unused := s.openUnused(t)
			if c.lost {
				clustertest.Eventually(t, "the server closes it", func() bool { return s.listener.Open() == 1 })
			} else {
				time.Sleep(2 * headTime)
			}
			sent, err := s.post(t, "/")
			if sent != unused {
				t.Fatal("the review was sent on another connection")
			}
			if c.lost != (err != nil) {
				t.Errorf("%v, want that the review is lost: %v", err, c.lost)
			}
		})
	}
}

// secure is a server as usher's, and an API server's client of it, far away.
type secure struct {
	listener *connections.Listener
	client   *http.Client
	asked    chan struct{} // gives something when /slow was asked
	answer   chan struct{} // /slow is answered when it gives something
	dialling chan struct{} // gives something when a dial begins
	dial     chan struct{} // it goes on when it gives something
	dialled  chan net.Conn // gives its connection when it ends
}

func serveTLS(t *testing.T, build func(http.Handler, *connections.Listener, *stdlog.Logger) *http.Server) *secure {
	t.Helper()
	lender := httptest.NewTLSServer(nil) // lends its certificate
	t.Cleanup(lender.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &secure{listener: connections.Bound(l.(*net.TCPListener), 10), asked: make(chan struct{}), answer: make(chan struct{}),
		dialling: make(chan struct{}), dial: make(chan struct{}), dialled: make(chan net.Conn, 2)}
	server := build(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			s.asked <- struct{}{}
			<-s.answer
		}
	}), s.listener, stdlog.New(io.Discard, "", 0))
	server.ReadHeaderTimeout = headTime
	held := &service{certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &lender.TLS.Certificates[0], nil }}
	go func() { _ = server.Serve(held.secured(s.listener)) }()
	t.Cleanup(func() { _ = server.Close() })
	s.client = &http.Client{Transport: s.transport(t, lender.Certificate()), Timeout: time.Minute}
	return s
}

// transport returns one as in client-go, except that it also offers HTTP/2.
func (s *secure) transport(t *testing.T, root *x509.Certificate) *http.Transport {
	roots := x509.NewCertPool()
	roots.AddCert(root)
	config := &tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: []string{"h2", "http/1.1"}}
	transport := &http.Transport{ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 25, IdleConnTimeout: 90 * time.Second,
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			s.dialling <- struct{}{}
			<-s.dial
			c, err := dialFar(ctx, address, config)
			s.dialled <- c
			return c, err
		}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// dialFar dials until a handshake was fast enough, on a busy machine.
func dialFar(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	for {
		tcp, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		far := &farConn{Conn: tcp, sent: make(chan struct{})}
		over := tls.Client(far, config)
		if over.HandshakeContext(ctx) == nil {
			far.held.Store(true)
			return over, nil
		}
		_ = tcp.Close()
	}
}

// farConn is a connection on which, while held, nothing arrives before something was sent: not even that it was closed.
type farConn struct {
	net.Conn
	held atomic.Bool
	once sync.Once
	sent chan struct{}
}

func (c *farConn) Read(p []byte) (int, error) {
	if c.held.Load() {
		<-c.sent
	}
	return c.Conn.Read(p)
}

func (c *farConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.held.Load() {
		c.release()
	}
	return n, err
}

func (c *farConn) Close() error {
	c.release()
	return c.Conn.Close()
}

func (c *farConn) release() { c.once.Do(func() { close(c.sent) }) }

// openUnused makes the client open a connection that goes unused into its pool: while it is dialled, another one becomes free.
func (s *secure) openUnused(t *testing.T) net.Conn {
	t.Helper()
	slow, second := s.askSlow(t), make(chan error, 1)
	go func() {
		_, err := s.post(t, "/")
		second <- err
	}()
	<-s.dialling
	s.answer <- struct{}{}
	if err := errors.Join(<-slow, <-second); err != nil {
		t.Error(err)
	}
	s.dial <- struct{}{}
	return <-s.dialled
}

// askSlow posts a review to /slow until one has arrived: on a busy machine, the server's time limit may be over before.
func (s *secure) askSlow(t *testing.T) (answered chan error) {
	t.Helper()
	for answered = make(chan error, 1); ; {
		go func() {
			_, err := s.post(t, "/slow")
			answered <- err
		}()
		<-s.dialling
		s.dial <- struct{}{}
		<-s.dialled
		select {
		case <-s.asked:
			return answered
		case err := <-answered:
			t.Log("again:", err)
		}
	}
}

// post posts a review, and returns the connection that was used.
func (s *secure) post(t *testing.T, path string) (used net.Conn, err error) {
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { used = info.Conn }}
	ctx := httptrace.WithClientTrace(t.Context(), trace)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.listener.Addr().String()+path, strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return used, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return used, errors.Join(err, answer.Body.Close())
}
