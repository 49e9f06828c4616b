package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"usher.dev/usher/test/harness"
)

// Clients that keep sending to a replica that shuts down.

// errNotSent is the error of a request that was not sent, because no connection could be opened: the client goes
// elsewhere.
var errNotSent = errors.New("no connection")

// handshakeTimeout is the service's timeout for TLS handshakes. On a busy machine a client may have completed a handshake that the
// service has given up: what it sends first on such a connection is never received.
const handshakeTimeout = 5 * time.Second

// callers post reviews one after the other until they are refused.
type callers struct {
	all                          sync.WaitGroup
	answered, refused, cutInHand atomic.Int64
	late                         atomic.Int64
	mu                           sync.Mutex
	lost                         []error
}

// TestProcessDrainLosesNothing: 300 clients keep posting, some without a pause, some with connections that are idle for
// a while, until they are refused. Every request that was sent is answered. USHER_LONG=1 sends 100,000.
func TestProcessDrainLosesNothing(t *testing.T) {
	for _, delay := range []string{"300ms", "0s"} {
		t.Run("delay "+delay, func(t *testing.T) {
			for range scaled(1, 1, 5) {
				drainUnderLoad(t, delay, scaled(100, 300, 300), scaled(1000, 5000, 10_000))
			}
		})
	}
}

func drainUnderLoad(t *testing.T, delay string, clients, requests int) {
	t.Helper()
	p := launched(t, launch{args: []string{"--shutdown-delay", delay}})
	load := &callers{}
	for i := range clients {
		load.start(p, harness.ReadSample(t, goodSamples[0]), i)
	}
	eventually(t, "they have sent enough", func() bool { return load.answered.Load() >= int64(requests) })
	p.signal(t, syscall.SIGTERM)
	load.all.Wait()
	p.wantExit(t)
	t.Logf("%d answered, %d clients refused, %d of them after they were accepted; %d handshakes took too long; lost: %d",
		load.answered.Load(), load.refused.Load(), load.cutInHand.Load(), load.late.Load(), len(load.lost))
	if load.late.Load() > 0 && !strings.Contains(p.log.String(), "TLS handshake error") {
		t.Errorf("%d first requests were not answered, and the service ended no handshake", load.late.Load())
	}
	if len(load.lost) > 0 {
		t.Errorf("%d requests were sent and not answered, the first: %v", len(load.lost), load.lost[0])
	}
}

// start starts a client. Every third one pauses between requests, so that its connection is idle for a while.
func (l *callers) start(p *process, review []byte, i int) {
	pause := time.Duration(0)
	if i%3 == 0 {
		pause = 400 * time.Millisecond
	}
	var dialed atomic.Pointer[time.Time] // the connection that has answered nothing yet
	transport := &http.Transport{DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		now := time.Now()
		dialed.Store(&now)
		return l.dial(ctx, p, address)
	}}
	client := &http.Client{Transport: transport, Timeout: maxWait}
	l.all.Go(func() {
		defer transport.CloseIdleConnections()
		for range maxReviews {
			got, err := send(client, "https://"+p.reviews+"/mutate-pods?timeout=30s", review, nil)
			if errors.Is(err, errNotSent) {
				l.refused.Add(1)
				return
			}
			if at := dialed.Load(); err != nil && at != nil && time.Since(*at) >= handshakeTimeout {
				l.late.Add(1)
				continue
			}
			dialed.Store(nil)
			if err == nil && got.code != http.StatusOK && got.code != http.StatusServiceUnavailable {
				err = fmt.Errorf("%w: %d %.300s", errWrong, got.code, got.body)
			}
			if err != nil {
				l.mu.Lock()
				l.lost = append(l.lost, err)
				l.mu.Unlock()
				return
			}
			l.answered.Add(1)
			if pause > 0 {
				time.Sleep(rand.N(pause))
			}
		}
	})
}

// dial connects, and marks an error as happened before anything was sent.
func (l *callers) dial(ctx context.Context, p *process, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	t := tls.Client(c, &tls.Config{RootCAs: p.roots, ServerName: "localhost"})
	if err := t.HandshakeContext(ctx); err != nil {
		l.cutInHand.Add(1)
		_ = c.Close()
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return t, nil
}
