package process

import (
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// balancer distributes new connections over the ready backends, like a Service. Open connections stay where they are.
type balancer struct {
	address  string
	mu       sync.Mutex
	backends []*process
	ready    []*process
	turn     int
}

func newBalancer(t *testing.T, backends ...*process) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{address: l.Addr().String(), backends: slices.Clone(backends)}
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		_ = l.Close()
	})
	go b.accept(l)
	go b.poll(stop)
	return b
}

// replace replaces a backend that has ended.
func (b *balancer) replace(old, by *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(slices.DeleteFunc(slices.Clone(b.backends), func(p *process) bool { return p == old }), by)
}

// poll asks /readyz every 20 ms.
func (b *balancer) poll(stop chan struct{}) {
	client := &http.Client{Timeout: 5 * time.Second}
	for {
		b.mu.Lock()
		backends := b.backends
		b.mu.Unlock()
		var ready []*process
		for _, p := range backends {
			r, err := client.Get("http://" + p.operations + "/readyz")
			if err != nil {
				continue
			}
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				ready = append(ready, p)
			}
		}
		b.mu.Lock()
		b.ready = ready
		b.mu.Unlock()
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (b *balancer) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			if backend := b.connect(); backend != nil {
				splice(c.(*net.TCPConn), backend)
			}
			_ = c.Close()
		}()
	}
}

// connect tries the ready backends, and repeats that if none accepts the connection.
func (b *balancer) connect() *net.TCPConn {
	for end := time.Now().Add(maxWait); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		ready, turn := b.ready, b.turn
		b.turn++
		b.mu.Unlock()
		for i := range ready {
			if c, err := net.Dial("tcp", ready[(turn+i)%len(ready)].reviews); err == nil {
				return c.(*net.TCPConn)
			}
		}
	}
	return nil
}

// splice copies bytes in both directions until both sides are done.
func splice(a, b *net.TCPConn) {
	done := make(chan struct{}, 2)
	pass := func(to, from *net.TCPConn) {
		_, _ = io.Copy(to, from)
		_ = to.CloseWrite()
		done <- struct{}{}
	}
	go pass(a, b)
	go pass(b, a)
	<-done
	<-done
	_ = b.Close()
}
