package process

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher.dev/usher/test/harness"
)

// load is a set of clients that post well-formed reviews one after the other, like the API server: with net/http,
// keep-alive connections, and no retries of their own. net/http repeats a POST only if it could not write a byte of it
// on a kept connection.
type load struct {
	stop     chan struct{}
	done     sync.WaitGroup
	answered atomic.Int64
	mu       sync.Mutex
	failed   []error
}

// errWrong is a wrong answer; all other failures are of the connection.
var errWrong = errors.New("wrong answer")

// loadOptions say what the clients do.
type loadOptions struct {
	address string
	roots   *x509.CertPool
	clients int
	newEach bool // a new connection for each review
	// right reports whether an answer to a sample is right; each client has one of its own.
	right func() func(sample string, got reply) bool
}

// maxReviews limits a client, in case its test never stops it.
const maxReviews = 100_000

func startLoad(t *testing.T, o loadOptions) *load {
	t.Helper()
	l := &load{stop: make(chan struct{})}
	bodies := map[string][]byte{}
	for _, name := range goodSamples {
		bodies[name] = harness.ReadSample(t, name)
	}
	for range o.clients {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.roots}, DisableKeepAlives: o.newEach}
		l.done.Go(func() {
			defer transport.CloseIdleConnections()
			l.run(o, &http.Client{Transport: transport, Timeout: maxWait}, bodies)
		})
	}
	t.Cleanup(func() { l.finish() })
	return l
}

func (l *load) run(o loadOptions, client *http.Client, bodies map[string][]byte) {
	right := o.right()
	for i := range maxReviews {
		name := goodSamples[i%len(goodSamples)]
		route, _, _ := strings.Cut(name, "/")
		got, err := send(client, "https://"+o.address+"/"+route+"?timeout=10s", bodies[name], nil)
		if err == nil && (got.code != http.StatusOK || !right(name, got)) {
			err = fmt.Errorf("%w to %s: %d %.300s", errWrong, name, got.code, got.body)
		}
		l.answered.Add(1)
		if err != nil {
			l.mu.Lock()
			l.failed = append(l.failed, err)
			l.mu.Unlock()
		}
		select {
		case <-l.stop:
			return
		case <-time.After(2 * time.Millisecond): // leave the service some of the two cores
		}
	}
}

// more waits until n more reviews have been answered.
func (l *load) more(t *testing.T, n int) {
	t.Helper()
	end := l.answered.Load() + int64(n)
	eventually(t, fmt.Sprintf("%d more answers", n), func() bool { return l.answered.Load() >= end })
}

// finish stops the clients and returns the failures.
func (l *load) finish() []error {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.done.Wait()
	return l.failed
}

// wantNoFailure stops the clients, which must all have received right answers only.
func (l *load) wantNoFailure(t *testing.T) {
	t.Helper()
	failed := l.finish()
	t.Logf("%d reviews, %d failed", l.answered.Load(), len(failed))
	if len(failed) > 0 {
		t.Errorf("%d of %d reviews failed, the first: %v", len(failed), l.answered.Load(), failed[0])
	}
}

// oneOf accepts the answers of the first of several policies, then from some moment on the answers of the next, and
// never earlier ones again.
func oneOf(policies ...map[string]string) func() func(string, reply) bool {
	return func() func(string, reply) bool {
		now := 0
		return func(sample string, got reply) bool {
			for i := now; i < len(policies); i++ {
				if policies[i][sample] == got.body {
					now = i
					return true
				}
			}
			return false
		}
	}
}
