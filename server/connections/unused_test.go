package connections

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"usher.dev/usher/test/clustertest"
)

// TestUnusedDeadlines: what an http.Server says, in its order, and what arrives.
func TestUnusedDeadlines(t *testing.T) {
	start := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	const arrives, none = -1, -2 // instead of a deadline that the server sets: a byte arrives, or no deadline
	type step struct{ at, given, want int }
	for name, c := range map[string]struct {
		plain bool
		steps []step
	}{
		"a handshake has the server's time": {false, []step{{0, 5, 5}, {1, arrives, none}, {2, arrives, none}}},
		"unused until the end":              {false, []step{{0, 5, 5}, {1, arrives, none}, {2, none, none}, {2, 7, 122}}},
		"without TLS":                       {true, []step{{0, 5, 120}, {60, arrives, 65}}},
		"a head has its time from the first byte, and no more for others": {false,
			[]step{{0, 5, 5}, {2, none, none}, {2, 7, 122}, {100, arrives, 105}, {101, arrives, none}, {104, arrives, none}}},
		"a request has its time from the first byte": {false, []step{{2, none, none}, {2, 7, 122}, {100, arrives, 105}, {101, 37, 135}}},
		"a head that came with the handshake":        {false, []step{{2, none, none}, {2, 7, 122}, {2, 37, 37}}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unused{most: 2 * time.Minute}
			u.ready.Store(c.plain)
			for i, s := range c.steps {
				var got, given, want time.Time
				if s.want != none {
					want = after(s.want)
				}
				if s.given >= 0 {
					given = after(s.given)
				}
				if s.given == arrives {
					got, _ = u.begin(after(s.at))
				} else {
					got = u.deadline(given, after(s.at))
				}
				if !got.Equal(want) {
					t.Errorf("step %d: %v, want %v", i, got, want)
				}
			}
		})
	}
}

// TestDrainAwaitsHandshakes: a connection whose handshake is under way does not end for being silent.
func TestDrainAwaitsHandshakes(t *testing.T) {
	l := listen(t, 4)
	l.KeepUnused(time.Minute)
	_, c := l.connect(t)
	l.State(tls.Server(c, nil), http.StateNew)
	ended := func() bool {
		l.endSilent(time.Now().Add(time.Hour))
		return l.fresh.Len() == 0
	}
	if ended() {
		t.Error("it ended before its handshake")
	}
	_ = c.SetReadDeadline(time.Time{}) // as the server does after it
	if !ended() {
		t.Error("it goes on")
	}
}

// headTime and readTime are the limits of the servers in these tests.
const headTime, readTime = 300 * time.Millisecond, 2 * time.Second

// unusedServer starts a server that keeps unused connections for the given time, and returns its listener.
func unusedServer(t *testing.T, keep time.Duration, secured bool, handler http.HandlerFunc, prepare ...func(*Listener, *httptest.Server)) *Listener {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	t.Cleanup(s.Close)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	l := Bound(s.Listener.(*net.TCPListener), 4)
	l.KeepUnused(keep)
	inFlood(l)
	s.Listener, s.Config.ConnState = l, l.State
	s.Config.ReadHeaderTimeout, s.Config.ReadTimeout = headTime, readTime
	for _, p := range prepare {
		p(l, s)
	}
	if secured {
		s.StartTLS()
	} else {
		s.Start()
	}
	return l
}

// forBoth runs a test without and with TLS.
func forBoth(t *testing.T, keep time.Duration, handler http.HandlerFunc, test func(t *testing.T, dial func() *client)) {
	for _, secured := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secured], func(t *testing.T) {
			t.Parallel()
			address := unusedServer(t, keep, secured, handler).Addr().String()
			test(t, func() *client { return dialUnused(t, address, secured) })
		})
	}
}

// dialUnused connects. On a busy machine a handshake may be too slow.
func dialUnused(t *testing.T, address string, secured bool) *client {
	t.Helper()
	for range 100 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if !secured {
			return &client{c, bufio.NewReader(c)}
		}
		over := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		if over.Handshake() == nil {
			return &client{over, bufio.NewReader(over)}
		}
	}
	t.Fatal("no handshake")
	return nil
}

// TestUnusedIsServed: a connection whose first request comes later than a head, and all of a request, may take is served. The
// request still has all of its time.
func TestUnusedIsServed(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "body" {
			http.Error(w, string(body), http.StatusBadRequest)
		}
	}
	forBoth(t, time.Hour, handler, func(t *testing.T, dial func() *client) {
		c := dial()
		time.Sleep(readTime + headTime)
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
		if r, err := http.ReadResponse(c.in, nil); err != nil || r.StatusCode != http.StatusContinue {
			t.Fatal(err)
		}
		if c.send("body"); !c.answered() {
			t.Error("it was not answered")
		}
	})
}

// TestUnusedSlowHead: a head that has begun must arrive in its time, although bytes of it go on arriving.
func TestUnusedSlowHead(t *testing.T) {
	forBoth(t, time.Hour, nil, func(t *testing.T, dial func() *client) {
		c := dial()
		go func() {
			for t.Context().Err() == nil {
				time.Sleep(headTime / 10)
				c.send("a")
			}
		}()
		if _, err := io.ReadAll(c.in); errors.Is(err, os.ErrDeadlineExceeded) { // a 400, if anything
			t.Error("it goes on")
		}
	})
}

// TestUnusedEnds: a connection that stays unused ends, and earlier if its handshake does.
func TestUnusedEnds(t *testing.T) {
	forBoth(t, 4*headTime, nil, func(t *testing.T, dial func() *client) {
		if c := dial(); !c.ended() {
			t.Error("it goes on")
		}
	})
	l := unusedServer(t, time.Hour, true, nil)
	if c := dialUnused(t, l.Addr().String(), false); !c.ended() {
		t.Error("without a handshake it goes on")
	}
}

// TestUnusedGiveWay: a house full of connections that wait for their first request has room for others, and these give way
// before one that was used.
func TestUnusedGiveWay(t *testing.T) {
	l := unusedServer(t, time.Hour, false, func(http.ResponseWriter, *http.Request) {})
	dial := func() *client { return dialUnused(t, l.Addr().String(), false) }
	kept := dial()
	if kept.send(fast); !kept.answered() {
		t.Fatal("no answer")
	}
	unused := []*client{dial(), dial(), dial()}
	clustertest.Eventually(t, "all are open", func() bool { return l.Open() == 4 })
	time.Sleep(2 * headTime)
	if l.Open() != 4 {
		t.Fatalf("%d are open", l.Open())
	}
	for range 20 {
		c := dial()
		if c.send(fast); !c.answered() {
			t.Error("a new one was not answered")
		}
		_ = c.Close()
	}
	if !unused[0].ended() || l.Evicted() == 0 {
		t.Errorf("%d gave way", l.Evicted())
	}
	if kept.send(fast); !kept.answered() {
		t.Error("the one that was used gave way")
	}
}
