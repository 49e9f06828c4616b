package process

import (
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"usher.dev/usher/test/harness"
)

// More connections than the limit.

// TestProcessCrowd: far more idle connections of every kind than the limit allows. The oldest are closed, the memory of
// deploy/base is enough, and reviews are answered meanwhile: on new connections, and on a connection that always has a
// request in progress. With USHER_LONG=1 there are 12,000 and the default limit.
func TestProcessCrowd(t *testing.T) {
	l, bound := asDeployed, 1000
	if !longForm() {
		bound = 100
		l.args = []string{"--max-connections", strconv.Itoa(bound)}
	}
	p := launched(t, l)
	p.wantAlive(t)
	before := p.goroutines(t)
	request := whole("/mutate-pods?timeout=30s", harness.ReadSample(t, podSample))
	rounds, each := scaled(1, 3, 10), scaled(150, 250, 1200)
	var slowest time.Duration // round
	for range rounds {
		began := time.Now()
		busy := p.hold(t, request, 100)
		busy.settle()
		kept := p.dial(t)
		inParallel(16, each, func(i int) { p.idle(t, i, request) })
		if got := busy.finish(); got.code != 200 && time.Since(began) < 20*time.Second { // it may take 27
			t.Errorf("a request under way: %d %.300s", got.code, got.body)
		}
		if _, err := io.WriteString(kept, request); err == nil {
			if _, err := kept.answer(); err == nil {
				t.Error("the oldest idle connection did not give way")
			}
		}
		p.wantAlive(t)
		slowest = max(slowest, time.Since(began))
	}
	open, evicted := int(p.metric(t, `usher_connections{listener="reviews"}`)), int(p.metric(t, `usher_connections_evicted_total{listener="reviews"}`))
	t.Logf("%d connections were opened, %d are open, %d gave way", rounds*each, open, evicted)
	few := open < bound/4 || evicted < rounds*each/4-bound
	if open > bound || few && slowest < 3*time.Second { // the server itself ends those that do not complete the handshake within five seconds
		t.Errorf("%d connections are open, %d gave way; at most %d may be open", open, evicted, bound)
	}
	eventually(t, "there are as many goroutines as connections", func() bool { return p.goroutines(t) <= before+bound+10 })
	p.wantMemory(t, deployedMemory)
	p.wantNoFault(t)
}

// idle opens a connection that goes silent after nothing, after the TLS handshake, or after one answered request.
func (p *process) idle(t *testing.T, i int, request string) {
	if i%4 == 0 {
		c, err := net.Dial("tcp", p.reviews)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = c.Close() })
		return
	}
	var got reply
	var err error
	for range 3 { // on a busy machine a client may be so slow that its connection gives way before the request
		var w *wire
		if w, err = p.tryDial(); err != nil {
			continue
		}
		t.Cleanup(func() { _ = w.Close() })
		if i%4 < 3 { // most send nothing: the others end with their answers when there are many
			return
		}
		_, _ = io.WriteString(w, request)
		if got, err = w.answer(); err == nil {
			break
		}
	}
	if err != nil || got.code != 200 {
		t.Errorf("%v, %d %.300s", err, got.code, got.body)
	}
}

// TestProcessAllBusy: if all connections have requests in progress, a new one waits until one of them ends.
func TestProcessAllBusy(t *testing.T) {
	p := launched(t, launch{args: []string{"--max-connections", "3"}})
	request := whole("/mutate-pods?timeout=30s", harness.ReadSample(t, podSample))
	var busy []*holder
	for range 3 {
		busy = append(busy, p.hold(t, request, 100))
		busy[len(busy)-1].settle()
	}
	eventually(t, "all have arrived", func() bool { return p.metric(t, `usher_connections{listener="reviews"}`) == 3 })
	waiting, err := net.Dial("tcp", p.reviews) // the kernel accepts it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = waiting.Close() }()
	for _, h := range busy {
		if got := h.finish(); got.code != 200 {
			t.Errorf("a request under way: %d %.300s", got.code, got.body)
		}
	}
	if err := tls.Client(waiting, &tls.Config{RootCAs: p.roots, ServerName: "localhost"}).Handshake(); err != nil {
		t.Error("the one that waited: ", err)
	}
	if n := p.metric(t, `usher_connections_evicted_total{listener="reviews"}`); n != 0 {
		t.Errorf("%v connections were closed", n)
	}
}
