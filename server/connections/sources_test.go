package connections

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
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

// TestFirstUnproven: which connection without a request of a known caller gives way to a new one, and how long that waits before.
func TestFirstUnproven(t *testing.T) {
	const age, most = time.Hour, time.Second
	known, stranger, other := &source{known: true}, &source{}, &source{}
	type open struct {
		from *source
		age  time.Duration
	}
	for name, c := range map[string]struct {
		open    []open
		asking  *source
		asked   time.Duration
		want    int
		waiting time.Duration
	}{
		"none": {nil, known, age, -1, 0},
		"an unproven one has its time, with others waiting": {[]open{{stranger, age}}, other, 0, 0, most},
		"also if its source asks":                           {[]open{{stranger, age}}, stranger, most / 4, 0, most * 3 / 4},
		"then it gives way to its source":                   {[]open{{stranger, age}, {stranger, 0}}, stranger, most, 0, 0},
		"a new one does not":                                {[]open{{stranger, most / 4}}, other, age, 0, most * 3 / 4},
		"it gives way to known ones at once":                {[]open{{known, age}, {stranger, settled}, {stranger, 0}}, known, 0, 1, 0},
		"but not to them while its request may arrive":      {[]open{{known, age}, {stranger, 0}}, known, age, 1, settled},
		"a known one's has its time from the new one's":     {[]open{{known, age}, {known, age / 2}}, known, 0, 0, most},
		"and from its own last step, if that is later":      {[]open{{known, most / 4}, {known, 0}}, known, age, 0, most * 3 / 4},
		"then it gives way, also to strangers":              {[]open{{known, most}}, stranger, most, 0, 0},
		"a stranger's before it, although it is not as old": {[]open{{known, age}, {stranger, most}}, other, most, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &Listener{cutsUnproven: true, asking: c.asking, asked: time.Now().Add(-c.asked)}
				var all []*conn
				for _, o := range c.open {
					made := &conn{listener: l, source: o.from, begun: time.Now().Add(-o.age)}
					made.since, all = l.all.PushBack(made), append(all, made)
				}
				first, wait := l.firstFresh(most)
				if got := slices.Index(all, first); got != c.want || wait != c.waiting {
					t.Errorf("%d in %v, want %d in %v", got, wait, c.want, c.waiting)
				}
				if len(all) > 1 {
					if l.begins(all[0]); l.all.Back().Value != all[0] || !all[0].begun.Equal(time.Now()) {
						t.Error("a step does not give it time")
					}
				}
			})
		})
	}
}

// TestUnusedOfKnownIsKept: connections of a known caller that it has not used yet do not give way at once to a new one of its own,
// however old they are.
func TestUnusedOfKnownIsKept(t *testing.T) {
	s := serve(t, 8, (*Listener).CutUnproven, func(l *Listener) { l.patience = time.Hour; l.KeepUnused(time.Hour) })
	s.giving.Store(true)
	var unused []*client
	for i := range 8 {
		c := s.dialFrom(t, apiServer)
		clustertest.Eventually(t, "it is open", func() bool { return s.Open() == i+1 })
		if i >= 3 {
			unused = append(unused, c)
		} else if c.send(known); !c.answered() {
			t.Fatal("no answer")
		}
	}
	s.mu.Lock()
	for e := s.all.Front(); e != nil; e = e.Next() {
		e.Value.(*conn).begun = time.Now().Add(-2 * time.Hour)
	}
	before := s.asked
	s.mu.Unlock()
	fresh := s.dialFrom(t, apiServer)
	clustertest.Eventually(t, "a new one waits", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asked.After(before)
	})
	for _, c := range unused {
		if c.send(known); !c.answered() {
			t.Error("a request was lost")
		}
	}
	_ = unused[0].Close()
	if fresh.send(known); !fresh.answered() || s.Evicted() != 0 {
		t.Errorf("%d gave way", s.Evicted())
	}
}

// TestKnownFindRoom: while attackers at many addresses hold all connections, those of known callers find room without patience. So do
// callers of whom none is known yet, and who share the attackers' address, but later.
func TestKnownFindRoom(t *testing.T) {
	const limit = 8
	for name, c := range map[string]struct {
		source   string
		known    bool
		patience time.Duration
	}{
		"a known caller": {"127.0.1.%d", true, time.Hour},
		"nobody is known, and attackers have the same address": {apiServer, false, settled},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, limit, (*Listener).CutUnproven, func(l *Listener) { l.patience = c.patience; l.KeepUnused(time.Hour) })
			s.mu.Lock()
			s.enter(&net.TCPAddr{IP: net.ParseIP(apiServer)}).known = c.known
			s.mu.Unlock()
			for i := range limit {
				s.dialFrom(t, strings.Replace(c.source, "%d", strconv.Itoa(i+1), 1))
			}
			clustertest.Eventually(t, "all are open", func() bool { return s.Open() == limit })
			for range 3 {
				fresh := s.dialFrom(t, apiServer)
				if fresh.send(known); !fresh.answered() {
					t.Fatal("no answer")
				}
			}
		})
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

// TestClosedHasNoTurn: a connection that is closed while its handshake waits for a turn waits no longer, and gives up what it has.
func TestClosedHasNoTurn(t *testing.T) {
	for held := range 2 { // the turn of the source, or that of all, which is the second
		l := listen(t, 1)
		l.KeepUnused(time.Minute)
		_, accepted := l.connect(t)
		c := accepted.(*conn)
		c.unused.until = time.Now().Add(time.Hour)
		full := l.turnsOf(c.source)[held]
		for range cap(full) {
			full <- struct{}{}
		}
		waited := make(chan error)
		go func() { waited <- c.compute(1) }()
		_ = c.Close()
		if err := <-waited; !errors.Is(err, net.ErrClosed) || len(l.turns)+len(c.source.turns) != cap(full) {
			t.Errorf("%v, %d turns are held", err, len(l.turns)+len(c.source.turns))
		}
	}
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
