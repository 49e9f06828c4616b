package process

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"usher.dev/usher/test/reviews"
)

// countingListener counts the writes to its connections.
type countingListener struct {
	net.Listener
	writes atomic.Int64
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, &l.writes}, err
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// TestOneWrite: an answer is one TLS record in one write, the largest of these in two: net/http's buffer has 4 KiB.
func TestOneWrite(t *testing.T) {
	server := httptest.NewUnstartedServer(sampleMux(t))
	counting := &countingListener{Listener: server.Listener}
	server.Listener = counting
	server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}}
	server.StartTLS()
	t.Cleanup(server.Close)
	want := map[string]int64{"220KB-pod": 2}
	for _, r := range append(reviews.Core()[:1:1], reviews.Core()...) { // the first opens the connection
		before := counting.writes.Load()
		answer, err := server.Client().Post(server.URL+r.Path+"?timeout=10s", "application/json", bytes.NewReader(r.Body))
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(err, answer)
		}
		size, _ := bytes.NewBuffer(nil).ReadFrom(answer.Body)
		_ = answer.Body.Close()
		if size != answer.ContentLength {
			t.Errorf("%s: %d bytes, announced are %d", r.Name, size, answer.ContentLength)
		}
		if got := counting.writes.Load() - before; before > 0 && got > max(1, want[r.Name]) {
			t.Errorf("%s: %d writes for an answer of %d bytes", r.Name, got, size)
		}
	}
}
