package connections

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"usher.dev/usher/test/clustertest"
)

// served is a server with a bounded listener. /slow answers when the channel gives something.
type served struct {
	*Listener
	slow    chan struct{}
	closing atomic.Bool // every answer closes its connection
	giving  atomic.Bool // answers close connections when many are open
	*http.Server
}

func serve(t *testing.T, most int, prepare ...func(*Listener)) *served {
	t.Helper()
	s := &served{Listener: listen(t, most), slow: make(chan struct{})}
	for _, p := range prepare {
		p(s.Listener)
	}
	s.Server = &http.Server{ConnState: s.State, ConnContext: s.Context, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			s.wait(r.Context())
		}
		if r.URL.Path == "/known" {
			Proven(r.Context())
		}
		if s.closing.Load() || s.giving.Load() && s.Crowded() {
			w.Header().Set("Connection", "close")
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(s.Listener) }()
	t.Cleanup(func() {
		_ = s.Server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		clustertest.Eventually(t, "the account is even", func() bool { return s.account() == "0 open, 0 idle, 0 ending" })
	})
	return s
}

// listen returns a listener at a free port.
func listen(t *testing.T, most int) *Listener {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Bound(tcp.(*net.TCPListener), most)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect opens a connection to a listener without a server, and accepts it.
func (l *Listener) connect(t *testing.T) (client, accepted net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	return client, accepted
}

// wait waits for the channel, or for the end of a connection that may be cut off.
func (s *served) wait(ctx context.Context) {
	if !s.cutsBusy {
		ctx = context.Background()
	}
	select {
	case <-s.slow:
	case <-ctx.Done():
	}
}

func (l *Listener) account() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutsBusy && l.all.Len()+l.ending != l.open {
		return fmt.Sprintf("%d of %d open may be closed", l.all.Len(), l.open)
	}
	return fmt.Sprintf("%d open, %d idle, %d ending", l.open, l.fresh.Len()+l.kept.Len(), l.ending)
}

// client is a connection to a served listener.
type client struct {
	net.Conn
	in *bufio.Reader
}

// dial connects, and waits until the given number of connections is open.
func (s *served) dial(t *testing.T, open int) *client {
	t.Helper()
	c := s.dialFrom(t, "127.0.0.1")
	clustertest.Eventually(t, "the connection is open", func() bool { return s.Open() == open })
	return c
}

// dialFrom connects from an address.
func (l *Listener) dialFrom(t *testing.T, source string) *client {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &client{c, bufio.NewReader(c)}
}

func (c *client) send(text string) { _, _ = io.WriteString(c, text) }

func (c *client) answered() bool {
	r, err := http.ReadResponse(c.in, nil)
	if err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	return err == nil && r.StatusCode == http.StatusOK
}

// ended waits until the server closes the connection, and reports whether it did so without an answer.
func (c *client) ended() bool {
	_, err := c.in.ReadByte()
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

const fast, slow = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"

// TestOldestGivesWay: the connection that has been silent the longest is closed, whether it has sent nothing or half a head;
// one that has had an answer gives way after these.
func TestOldestGivesWay(t *testing.T) {
	s := serve(t, 3, func(l *Listener) { l.patience = 2 * settled })
	nothing, kept, half := s.dial(t, 1), s.dial(t, 2), s.dial(t, 3)
	kept.send(fast)
	if !kept.answered() {
		t.Fatal("no answer")
	}
	clustertest.Eventually(t, "it is idle again", func() bool { return s.account() == "3 open, 3 idle, 0 ending" })
	before := s.heardLast()
	half.send(fast[:5])
	clustertest.Eventually(t, "half a head arrived", func() bool { return s.heardLast().After(before) })
	for i, oldest := range []*client{nothing, half, kept} {
		fresh := s.dial(t, 3)
		if !oldest.ended() {
			t.Errorf("%d: it was not the one that was silent for longest", i)
		}
		clustertest.Eventually(t, "it is closed and counted", func() bool { return s.Evicted() == i+1 && s.account() == "3 open, 3 idle, 0 ending" })
		fresh.send(fast)
		if !fresh.answered() {
			t.Errorf("%d: the new one was not answered", i)
		}
	}
}

// heardLast returns when an idle connection without an answer last sent anything.
func (l *Listener) heardLast() (last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.fresh.Front(); e != nil; e = e.Next() {
		last = e.Value.(*conn).heard
	}
	return last
}

// TestAllBusy: a new connection waits until another one is idle or closed.
func TestAllBusy(t *testing.T) {
	for _, leave := range []bool{false, true} {
		s := serve(t, 1)
		busy := s.dial(t, 1)
		busy.send(slow)
		clustertest.Eventually(t, "a request is under way", func() bool { return s.account() == "1 open, 0 idle, 0 ending" })
		waiting := s.dial(t, 1)
		waiting.send(fast)
		if leave {
			_ = busy.Close()
		}
		s.slow <- struct{}{}
		if !leave && !busy.answered() {
			t.Error("a request under way was cut off")
		}
		if !waiting.answered() {
			t.Error("the one that waited was not answered")
		}
	}
}

// TestAnswersMakeRoom: at most half of the connections are kept after an answer, so that new ones find room, although none that is
// kept is closed.
func TestAnswersMakeRoom(t *testing.T) {
	s := serve(t, 4, inFlood)
	s.giving.Store(true)
	first, second := s.dial(t, 1), s.dial(t, 2)
	for _, c := range []*client{first, second} {
		if c.send(fast); !c.answered() {
			t.Fatal("no answer")
		}
	}
	for i := range 20 {
		c := s.dial(t, 3)
		if c.send(fast); !c.answered() || !c.ended() {
			t.Fatalf("%d: its answer did not end the connection", i)
		}
		clustertest.Eventually(t, "it is closed", func() bool { return s.Open() == 2 })
	}
	for range 2 {
		s.dial(t, s.Open()+1)
	}
	last := s.dial(t, 4)
	last.send(fast)
	if !last.answered() || s.Evicted() != 2 {
		t.Errorf("%d gave way, want those that have sent nothing", s.Evicted())
	}
	clustertest.Eventually(t, "its answer ended the connection", func() bool { return s.Open() == 2 })
	for i, c := range []*client{first, second} {
		if c.send(fast); !c.answered() {
			t.Errorf("%d: a kept one was closed", i)
		}
	}
}

// TestKeptGivesWayLate: while no answer makes room, a kept connection is closed, but not before there was time for a request
// that was sent at the same time as the new connection.
func TestKeptGivesWayLate(t *testing.T) {
	s := serve(t, 2, func(l *Listener) { l.patience = 3 * settled })
	defer close(s.slow)
	kept, busy := s.dial(t, 1), s.dial(t, 2)
	if kept.send(fast); !kept.answered() {
		t.Fatal("no answer")
	}
	busy.send(slow)
	clustertest.Eventually(t, "one is idle, for long enough", func() bool { return s.silentFor() > s.patience && s.account() == "2 open, 1 idle, 0 ending" })
	began := time.Now()
	fresh := s.dial(t, 2)
	time.Sleep(settled)
	if kept.send(fast); !kept.answered() {
		t.Error("it was closed at once")
	}
	fresh.send(fast)
	if !fresh.answered() || !kept.ended() || time.Since(began) < settled+s.patience {
		t.Errorf("it gave way after %v", time.Since(began))
	}
}

// TestCutBusy: if all connections are busy, the oldest one is closed. A silent one gives way before.
func TestCutBusy(t *testing.T) {
	s := serve(t, 3, (*Listener).CutBusy)
	defer close(s.slow)
	first, second := s.dial(t, 1), s.dial(t, 2)
	for i, busy := range []*client{first, second} {
		busy.send(slow)
		clustertest.Eventually(t, "a request is under way", func() bool { return s.account() == fmt.Sprintf("2 open, %d idle, 0 ending", 1-i) })
	}
	silent := s.dial(t, 3)
	time.Sleep(2 * settled)
	fresh := s.dial(t, 3)
	if !silent.ended() {
		t.Error("the idle connection did not give way")
	}
	fresh.send(slow)
	clustertest.Eventually(t, "all are busy", func() bool { return s.account() == "3 open, 0 idle, 0 ending" })
	for i, oldest := range []*client{first, second} {
		next := s.dial(t, 3)
		if !oldest.ended() {
			t.Errorf("%d: it was not the oldest one", i)
		}
		next.send(slow)
		clustertest.Eventually(t, "it is closed and counted", func() bool { return s.Evicted() == i+2 && s.account() == "3 open, 0 idle, 0 ending" })
	}
}

// silentFor returns how long the first kept connection has been silent; 0 if there is none.
func (l *Listener) silentFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept.Len() == 0 {
		return 0
	}
	return time.Since(l.kept.Front().Value.(*conn).heard)
}

// TestClosedWhileFull: Accept does not wait forever.
func TestClosedWhileFull(t *testing.T) {
	s := serve(t, 1)
	s.dial(t, 1).send(slow)
	clustertest.Eventually(t, "a request is under way", func() bool { return s.account() == "1 open, 0 idle, 0 ending" })
	waiting := s.dial(t, 1)
	_ = s.Listener.Close()
	if !waiting.ended() {
		t.Error("it was served by a closed listener")
	}
	close(s.slow)
}

// drain starts Drain and sends its error on the returned channel.
func (s *served) drain(ctx context.Context) chan error {
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(ctx) }()
	return drained
}

// TestDrain: new connections are refused, but open ones are answered, also for what they send later.
func TestDrain(t *testing.T) {
	s := serve(t, 9)
	fresh, kept, silent, busy := s.dial(t, 1), s.dial(t, 2), s.dial(t, 3), s.dial(t, 4)
	busy.send(slow)
	for _, c := range []*client{kept, silent} {
		if c.send(fast); !c.answered() {
			t.Fatal("no answer")
		}
	}
	s.closing.Store(true)
	drained := s.drain(t.Context())
	clustertest.Eventually(t, "the listener is closed", s.isStopped)
	if c, err := net.Dial("tcp", s.Listener.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("connected to a closed listener")
	}
	for name, c := range map[string]*client{"a new one": fresh, "a kept one": kept} {
		if c.send(fast); !c.answered() {
			t.Errorf("%s was not answered", name)
		}
	}
	if !silent.ended() {
		t.Error("a silent one was answered")
	}
	select {
	case err := <-drained:
		t.Fatal("a request is under way: ", err)
	default:
	}
	s.slow <- struct{}{}
	if !busy.answered() {
		t.Error("the request under way was not answered")
	}
	if err := <-drained; err != nil || s.Evicted() != 0 {
		t.Errorf("%v, %d evicted", err, s.Evicted())
	}
}

// TestDrainEndsUnused: connections without a request do not hold up the end.
func TestDrainEndsUnused(t *testing.T) {
	s := serve(t, 9, func(l *Listener) { l.KeepUnused(time.Minute) })
	first, second := s.dial(t, 1), s.dial(t, 2)
	second.send(fast[:5])
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the server itself ends them after a minute
	defer cancel()
	if err := <-s.drain(ctx); err != nil {
		t.Error(err)
	}
	if !first.ended() || !second.ended() {
		t.Error("it goes on")
	}
}

// TestDrainIsBounded: connections that do not end in time are reported.
func TestDrainIsBounded(t *testing.T) {
	s := serve(t, 9)
	s.dial(t, 1).send(slow)
	clustertest.Eventually(t, "a request is under way", func() bool { return s.account() == "1 open, 0 idle, 0 ending" })
	ctx, cancel := context.WithCancel(t.Context())
	drained := s.drain(ctx)
	clustertest.Eventually(t, "the listener is closed", s.isStopped)
	cancel()
	if err := <-drained; err == nil {
		t.Error("it says that all is done")
	}
	close(s.slow)
}

// TestQueueIsAccepted: connections in the kernel's queue when the listener is about to be closed are answered.
func TestQueueIsAccepted(t *testing.T) {
	s := serve(t, 1)
	busy := s.dial(t, 1)
	busy.send(slow)
	clustertest.Eventually(t, "a request is under way", func() bool { return s.account() == "1 open, 0 idle, 0 ending" })
	var queue []*client
	for range 20 {
		queue = append(queue, s.dial(t, 1))
	}
	s.closing.Store(true)
	drained := s.drain(t.Context())
	for _, c := range queue {
		c.send(fast)
	}
	s.slow <- struct{}{}
	for i, c := range append(queue, busy) {
		if !c.answered() {
			t.Errorf("%d of the queue was not answered", i)
		}
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// TestUnreadIsNotIdle: a connection on which something has arrived that is not read yet is closed neither to make room nor by
// Drain.
func TestUnreadIsNotIdle(t *testing.T) {
	l := listen(t, 3)
	l.patience = settled
	asking, _ := l.connect(t) // nobody reads it
	l.connect(t)
	time.Sleep(2 * settled)
	if _, err := asking.Write([]byte("GET")); err != nil {
		t.Fatal(err)
	}
	first := func() *conn { return l.fresh.Front().Value.(*conn) }
	clustertest.Eventually(t, "the oldest has sent something", func() bool { return first().unread() })
	l.mu.Lock()
	l.makeRoom()
	l.mu.Unlock()
	l.endSilent(time.Now())
	if l.fresh.Len() != 1 || first().RemoteAddr().String() != asking.LocalAddr().String() {
		t.Error("the one that has sent something was closed")
	}
}
