package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// load creates pods through the API server, and connects to each replica as an API server does that reads the
// configurations now, until it is stopped.
type load struct {
	kubetest.Counts
	phase atomic.Value // a string: what happens now
	first sync.Map     // by phase: the first failure
	stop  func()
}

func startLoad(ctx context.Context) *load {
	l := &load{}
	l.phase.Store("start")
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() { l.each(ctx, 0, createPod) })
	}
	for i := range usher.Replicas {
		running.Go(func() {
			l.each(ctx, 20*time.Millisecond, func(ctx context.Context) (bool, error) { return connect(ctx, i) })
		})
	}
	l.stop = func() { cancel(); running.Wait() }
	return l
}

// each repeats a request. It returns whether there was an answer, and why it is no good one.
func (l *load) each(ctx context.Context, pause time.Duration, request func(context.Context) (bool, error)) {
	for ctx.Err() == nil {
		phase := l.phase.Load().(string)
		answered, err := request(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case !answered:
			l.Add(phase+": no answer", 1)
			time.Sleep(50 * time.Millisecond)
		case err != nil:
			l.Add(phase+": failed", 1)
			l.first.LoadOrStore(phase, err)
		default:
			l.Add(phase+": good", 1)
		}
		time.Sleep(pause)
	}
}

const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "load-"}, "spec": {"containers": [{"name": "c", "image": "load"}]}}`

func createPod(ctx context.Context) (answered bool, _ error) {
	r, err := cluster.User("loader", "system:masters").Do(ctx, "POST", "/api/v1/namespaces/load/pods?dryRun=All", "application/json", pod)
	if err != nil {
		return false, nil
	}
	if r.Status == 201 {
		return true, nil
	}
	text := string(r.Body)
	return strings.Contains(text, "webhook"), fmt.Errorf("%d %s", r.Status, text)
}

// connect checks the certificate of a replica under every caBundle.
func connect(ctx context.Context, replica int) (answered bool, _ error) {
	var bundles [][]byte
	for _, path := range []string{mutating, validating} {
		c, err := cluster.Admin().Get(ctx, path)
		if err != nil {
			return false, nil
		}
		for _, w := range c.List("webhooks") {
			text, _ := base64.StdEncoding.DecodeString(w.String("clientConfig", "caBundle"))
			bundles = append(bundles, text)
		}
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", usher.Replicas[replica].Reviews(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return false, nil // it restarts: no API server connects to it now
	}
	defer conn.Close()
	leaf := conn.ConnectionState().PeerCertificates[0]
	for _, bundle := range bundles {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "usher.usher.svc"}); err != nil {
			return true, fmt.Errorf("replica %d serves %x: %w", replica, leaf.SerialNumber, err)
		}
	}
	return true, nil
}

// want checks a phase: how many requests failed, at most.
func (l *load) want(t *testing.T, phase string, failed int) {
	t.Helper()
	if n := l.Get(phase + ": failed"); n > failed {
		first, _ := l.first.Load(phase)
		t.Errorf("%s: %d failed, the first with: %v", phase, n, first)
	}
	if l.Get(phase+": good") < 10 {
		t.Errorf("%s: there was hardly any load", phase)
	}
}
