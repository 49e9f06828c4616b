package kubetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// probeEvery is the period of the balancer's readiness probes. A kubelet probes every few seconds; tests need it
// faster.
const probeEvery = 100 * time.Millisecond

// Balancer distributes connections to the replicas as a Service does: a new connection goes to the next ready replica
// and stays there, an open one is not touched, and a replica that died is detected only by the next probe.
type Balancer struct {
	Address string

	listener net.Listener
	replicas []*Replica
	ready    []atomic.Bool // by replica
	turn     atomic.Uint64
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func startBalancer(replicas []*Replica) (*Balancer, error) {
	var port int
	if err := freePorts(&port); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &Balancer{Address: l.Addr().String(), listener: l, replicas: replicas, stop: stop}
	b.ready = make([]atomic.Bool, len(replicas))
	for i := range replicas {
		b.running.Go(func() { b.probe(ctx, i) })
	}
	b.running.Go(b.accept)
	return b, nil
}

func (b *Balancer) close() {
	b.stop()
	_ = b.listener.Close()
	b.running.Wait()
}

// Ready returns the number of replicas that get connections now.
func (b *Balancer) Ready() int {
	n := 0
	for i := range b.ready {
		if b.ready[i].Load() {
			n++
		}
	}
	return n
}

// IsReady reports whether the replica with that index gets connections now.
func (b *Balancer) IsReady(i int) bool { return b.ready[i].Load() }

// Wait waits until n replicas get connections.
func (b *Balancer) Wait(ctx context.Context, n int) error { return b.wait(ctx, n) }

func (b *Balancer) wait(ctx context.Context, n int) error {
	return Eventually(ctx, func(context.Context) error {
		if ready := b.Ready(); ready != n {
			return fmt.Errorf("%d of %d replicas are ready, want %d", ready, len(b.replicas), n)
		}
		return nil
	})
}

func (b *Balancer) probe(ctx context.Context, i int) {
	for ctx.Err() == nil {
		b.ready[i].Store(b.replicas[i].Ready(ctx) == nil)
		select {
		case <-time.After(probeEvery):
		case <-ctx.Done():
		}
	}
}

// next returns the address of the next ready replica, or "".
func (b *Balancer) next() string {
	for range b.replicas {
		i := int(b.turn.Add(1) % uint64(len(b.replicas)))
		if b.ready[i].Load() {
			return b.replicas[i].Reviews()
		}
	}
	return ""
}

func (b *Balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.join(client.(*net.TCPConn))
	}
}

// join connects a client to a replica. Without a replica the client gets a reset, as from a Service.
func (b *Balancer) join(client *net.TCPConn) {
	defer client.Close()
	conn, err := net.Dial("tcp", b.next()) // an empty address is an error too
	if err != nil {
		_ = client.SetLinger(0)
		return
	}
	defer conn.Close()
	pass(client, conn.(*net.TCPConn))
}

// halfCloser is a connection of which each direction can be closed.
type halfCloser interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
}

// pass copies bytes in both directions until both sides are done.
func pass(client, server halfCloser) {
	var both sync.WaitGroup
	for _, way := range [][2]halfCloser{{client, server}, {server, client}} {
		both.Go(func() {
			if _, err := io.Copy(way[0], way[1]); err != nil {
				_ = way[1].CloseRead()
			}
			_ = way[0].CloseWrite()
		})
	}
	both.Wait()
}
