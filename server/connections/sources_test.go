package connections

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/test/clustertest"
)

// Addresses of an API server, of another one, and of attackers, on loopback.
const apiServer, secondAPIServer, attackers = "127.0.0.9", "127.0.0.8", "127.0.0.2"

const known = "GET /known HTTP/1.1\r\nHost: a\r\n\r\n"

// TestProvenIsKept: attackers hold all connections and go on sending, without a credential. Known callers, and those who send
// a credential for the first time, find room, also behind the address of the attackers; what they use is not closed.
func TestProvenIsKept(t *testing.T) {
	const limit = 8
	s := serve(t, limit, (*Listener).CutUnproven, func(l *Listener) { l.patience = settled })
	s.giving.Store(true)
	used := s.dialFrom(t, apiServer)
	answers := func(what string, c *client) {
		t.Helper()
		if c.send(known); !c.answered() {
			t.Fatal("no answer to " + what)
		}
	}
	answers("the first request", used)
	unused := s.dialFrom(t, apiServer)
	trickle := func(source string) *client {
		c := s.dialFrom(t, source)
		c.send(fast[:5])
		go func() {
			for n := 0; t.Context().Err() == nil && n < 1000; n++ {
				time.Sleep(settled / 10)
				c.send("a")
			}
		}()
		return c
	}
	for _, source := range []string{attackers, apiServer} {
		for range limit {
			trickle(source)
		}
		clustertest.Eventually(t, "all are open", func() bool { return s.Open() == limit })
		if s.Crowded() {
			t.Error("connections of known callers end with their answers")
		}
		if source == attackers && !trickle(source).ended() {
			t.Error("attackers get more of a full listener than a quarter")
		}
		evicted := s.Evicted()
		for _, from := range []string{apiServer, secondAPIServer} {
			fresh := s.dialFrom(t, from)
			answers("a new connection from "+from, fresh)
			_ = fresh.Close()
		}
		answers("a connection in use", used)
		if s.Evicted() == evicted {
			t.Error("none gave way")
		}
		if source == attackers {
			answers("an unused connection", unused)
			_ = unused.Close()
		}
	}
}

// TestSources: IPv6 clients count by their network. Known sources are remembered, but not without bound.
func TestSources(t *testing.T) {
	l := listen(t, 1)
	for address, want := range map[string]string{"127.0.0.1": "127.0.0.1/32", "::ffff:10.0.0.7": "10.0.0.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64"} {
		s := l.enter(&net.TCPAddr{IP: net.ParseIP(address)})
		if s.prefix.String() != want || l.enter(&net.TCPAddr{IP: net.ParseIP(address)}) != s || s.open != 2 {
			t.Errorf("%s: %+v", address, s)
		}
		l.leave(s)
		if l.leave(s); len(l.sources) != 0 {
			t.Errorf("%s is not forgotten", address)
		}
	}
	for i := range maxKnown + 5 {
		s := l.enter(&net.TCPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i))})
		Proven(l.Context(t.Context(), &conn{listener: l, source: s}))
		if l.leave(s); len(l.sources) != min(i+1, maxKnown+1) {
			t.Fatalf("%d sources after %d", len(l.sources), i+1)
		}
	}
}

// TestTurns: the sources take turns, each with its connections in order. A handshake whose time is over gets none.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Listener{turns: make(chan struct{}, 1), sources: map[netip.Prefix]*source{}}
		var order []string
		l.turns <- struct{}{}
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "c1", "b2"} {
			u := &unused{until: time.Now().Add(time.Hour)}
			if name == "a2" {
				u.until = time.Now().Add(time.Minute)
			}
			c := &conn{listener: l, unused: u, source: l.enter(&net.TCPAddr{IP: net.IPv4(10, 0, 0, name[0])})}
			go func() {
				if c.compute(1) == nil {
					order = append(order, name)
					time.Sleep(time.Second)
					c.endTurn()
				}
			}()
			synctest.Wait()
		}
		time.Sleep(2 * time.Minute)
		<-l.turns
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"a1", "b1", "c1", "a3", "b2", "a4"}; !slices.Equal(order, want) || len(l.turns) > 0 {
			t.Errorf("%v, want %v; %d go on", order, want, len(l.turns))
		}
	})
}

// TestHandshakesTakeTurns: before its turn nothing is computed for a client, and known sources have turns of their own. Long
// handshakes are not read to their end. Whatever happens, the turns end.
func TestHandshakesTakeTurns(t *testing.T) {
	var hellos, certificates atomic.Int32
	l := unusedServer(t, time.Hour, true, func(http.ResponseWriter, *http.Request) {}, func(l *Listener, s *httptest.Server) {
		l.CutUnproven()
		s.Config.ReadHeaderTimeout = 2 * time.Second // the others have their turn before, on a busy machine too
		l.enter(&net.TCPAddr{IP: net.ParseIP(apiServer)}).known = true
		s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert,
			GetConfigForClient:    func(*tls.ClientHelloInfo) (*tls.Config, error) { hellos.Add(1); return nil, nil },
			VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { certificates.Add(1); return nil }}
	})
	identity := httptest.NewUnstartedServer(nil)
	identity.StartTLS()
	defer identity.Close()
	one := identity.TLS.Certificates[0].Certificate[0]
	for _, c := range []struct {
		source       string
		turns, certs int
		want         string // whether the handshake succeeds, hellos and certificates
	}{
		{apiServer, 0, 1, "true 1 1"},
		{attackers, 0, 1, "false 0 0"},
		{attackers, 1, 1, "true 1 1"},
		{attackers, 1, 4, "true 1 1"},
		{attackers, 1, 100, "false 1 0"},
		{apiServer, 0, 100, "false 1 0"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			hellos.Store(0)
			certificates.Store(0)
			l.mu.Lock()
			l.strangers = make(chan struct{}, c.turns)
			l.mu.Unlock()
			raw := l.dialFrom(t, c.source)
			sent := tls.Certificate{Certificate: slices.Repeat([][]byte{one}, c.certs), PrivateKey: identity.TLS.Certificates[0].PrivateKey}
			over := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{sent}})
			_, err := io.WriteString(over, fast)
			if err == nil { // a client learns by reading that it was refused
				_, err = over.Read(make([]byte, 1))
			}
			if got := fmt.Sprint(err == nil, hellos.Load(), certificates.Load()); got != c.want {
				t.Errorf("%s (%v), want %s", got, err, c.want)
			}
			_ = raw.Close()
			clustertest.Eventually(t, "all turns are over", func() bool { return len(l.strangers)+len(l.turns) == 0 })
		})
	}
}

// TestTurnsEnd: a connection has no turn while it waits for its client, nor after its handshake or its end.
func TestTurnsEnd(t *testing.T) {
	l := listen(t, 1)
	_, accepted := l.connect(t)
	c := accepted.(*conn)
	for what, do := range map[string]func(){
		"writes":           func() { _, _ = c.Write(nil) },
		"ends a handshake": func() { _ = c.SetReadDeadline(time.Now()) },
		"reads":            func() { _, _ = c.Read(nil) },
		"closes":           func() { _ = c.Close() },
	} {
		l.turns <- struct{}{}
		c.source.turns <- struct{}{}
		c.turns.Store(l.turnsOf(c.source))
		if do(); len(l.turns)+len(c.source.turns) > 0 {
			t.Errorf("one that %s has a turn", what)
		}
	}
}
