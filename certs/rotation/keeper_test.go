package rotation

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/certs"
)

// ready starts the replicas one second apart, and waits until all are ready.
func ready(w *world) {
	w.register(mutating, "a", "b")
	for i := range w.replicas {
		w.start(i)
	}
	w.excused = w.now().Add(2*time.Minute + lag)
	w.run(3 * time.Minute)
	w.settled()
}

func (w *world) set(change func(*server)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.server)
}

// logged returns how often the log has a text.
func (w *world) logged(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.log {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestStartWithoutTheAPIServer: a replica says why it is not ready, once, and becomes ready when it can.
func TestStartWithoutTheAPIServer(t *testing.T) {
	for _, c := range []struct {
		name, says string
		begin, end func(*server)
	}{
		{"away", "connection refused", func(s *server) { s.away = true }, func(s *server) { s.away = false }},
		{"no right to read Secrets", "usher webhooks --rbac --certs=managed", func(s *server) { s.denied = "secrets" }, func(s *server) { s.denied = "" }},
		{"no right to read configurations", "usher webhooks --rbac --certs=managed", func(s *server) { s.denied = "configurations" }, func(s *server) { s.denied = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.register(mutating, "a")
				w.set(c.begin)
				w.start(0)
				w.run(time.Hour)
				if err := w.replicas[0].keeper.Ready(); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("ready: %v", err)
				}
				if n := w.logged(c.says); n != 1 {
					t.Errorf("it was logged %d times", n)
				}
				if _, err := w.replicas[0].keeper.GetCertificate(nil); err == nil {
					t.Error("there is a certificate")
				}
				w.set(c.end)
				w.excused = w.now().Add(time.Minute)
				w.run(time.Minute)
				w.settled()
			})
		})
	}
}

// TestAwayAfterTheStart: without the API server, or its rights, a replica serves what it has for as long as it is valid.
func TestAwayAfterTheStart(t *testing.T) {
	for name, begin := range map[string]func(*server){
		"away": func(s *server) { s.away = true }, "no rights": func(s *server) { s.denied = "/" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(w *world) {
				ready(w)
				leaf, _ := w.replicas[0].keeper.Ends()
				w.set(begin)
				w.run(time.Until(leaf.Add(-w.ahead)) - 10*time.Second)
				w.settled()
				time.Sleep(20 * time.Second)
				if w.replicas[0].keeper.Ready() == nil {
					t.Error("it is ready with a certificate that has ended")
				}
				w.set(func(s *server) { s.away, s.denied = false, "" })
				w.excused = w.now().Add(time.Minute)
				w.run(2 * time.Minute)
				w.settled()
			})
		})
	}
}

// TestRightsForConfigurationsAreLost: leaves of the CA that is trusted are still issued.
func TestRightsForConfigurationsAreLost(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		ready(w)
		before := Serial(w.data(tlsPath)[certs.CertFile])
		w.set(func(s *server) { s.denied = "configurations" })
		w.run(16 * time.Minute)
		w.settled()
		if Serial(w.data(tlsPath)[certs.CertFile]) == before {
			t.Error("the leaf was not renewed")
		}
	})
}

// TestClockOfAReplica: a replica whose own clock is years behind does not replace good certificates. In the simulation,
// all are.
func TestClockOfAReplica(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		ready(w)
		w.set(func(s *server) { s.writes = map[string]int{} })
		w.run(3 * time.Minute)
		w.set(func(s *server) {
			if len(s.writes) > 0 {
				t.Errorf("written: %v", s.writes)
			}
		})
	})
}

// TestClockOfTheAPIServer: when its clock is moved, certificates that are not valid by it are replaced, and those from
// the other time when it is moved back.
func TestClockOfTheAPIServer(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 40 * day, -40 * day} {
		t.Run(jump.String(), func(t *testing.T) {
			inBubble(t, 2, func(w *world) {
				ready(w)
				for _, ahead := range []time.Duration{w.ahead + jump, w.ahead} {
					w.set(func(s *server) { s.ahead = ahead })
					w.excused = w.now().Add(5 * time.Minute)
					w.run(6 * time.Minute)
					w.settled()
				}
			})
		})
	}
}

// TestSuspended: after a machine has slept, the first look notices what has ended meanwhile.
func TestSuspended(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		ready(w)
		w.set(func(s *server) { s.ahead += 5 * time.Hour }) // the replica's clock stood still
		w.excused = w.now().Add(time.Minute)
		w.run(90 * time.Second)
		w.settled()
	})
}

// TestNoKeysInTheLog: neither the log, nor errors, nor what can be mounted contain a key of a CA.
func TestNoKeysInTheLog(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		ready(w)
		for _, fault := range faults {
			fault.act(w)
			w.run(2 * time.Minute)
			if bytes.Contains(w.data(tlsPath)[certs.CACertFile], []byte("PRIVATE")) {
				t.Error("the bundle has a key")
			}
			if w.logged("PRIVATE")+w.logged("LS0t") > 0 {
				t.Error("the log has a key")
			}
		}
	})
}
