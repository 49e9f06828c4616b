package process

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher.dev/usher/test/harness"
)

// issuer is a CA called "ca", with a key of a curve.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue issues a certificate. A CA without a key is signed with its own.
func (ca issuer) issue(t *testing.T, curve elliptic.Curve, name string, signs bool) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: signs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if ca.key == nil {
		ca = issuer{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{cert, key}
}

// craftedChain is a client certificate with n intermediates, each of which may have signed all of them.
func craftedChain(t *testing.T, n int) tls.Certificate {
	t.Helper()
	first := issuer{}.issue(t, elliptic.P521(), "ca", true)
	leaf := first.issue(t, elliptic.P256(), "kube-apiserver", false)
	chain := tls.Certificate{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key}
	for range n {
		chain.Certificate = append(chain.Certificate, first.issue(t, elliptic.P521(), "ca", true).cert.Raw)
	}
	return chain
}

// attackCallers compares how long a known caller waits beside attackers without a credential, who send crafted chains and hold
// every connection that they get, with how long it waits alone.
func attackCallers(t *testing.T, during time.Duration) {
	ca := issuer{}.issue(t, elliptic.P256(), "ca", true)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	known := ca.issue(t, elliptic.P256(), "kube-apiserver", false)
	identity := tls.Certificate{Certificate: [][]byte{known.cert.Raw}, PrivateKey: known.key}
	chains := []tls.Certificate{craftedChain(t, 100), craftedChain(t, 3)}
	l := everything(t, asDeployed.env...)
	l.args = append(l.args, "--auth=enforce", "--client-ca="+file, "--max-connections=200")
	p := launched(t, l)
	alone := p.knownCaller(t, identity, during)
	for _, source := range []string{"127.0.0.2", "127.0.0.1"} { // another address than that of the known caller, and the same
		ctx, cancel := context.WithCancel(t.Context())
		var attackers sync.WaitGroup
		var passed atomic.Int32
		for range 250 {
			attackers.Go(func() { p.trickle(ctx, source) })
		}
		attackers.Go(func() { p.sendChains(ctx, source, chains, &passed) })
		eventually(t, "they hold all connections", func() bool { return p.metric(t, `usher_connections{listener="reviews"}`) >= 199 })
		beside := p.knownCaller(t, identity, during)
		cancel()
		attackers.Wait()
		t.Logf("p50 of a known caller: %v beside attackers at %s, %v alone, %.2f times", beside, source, alone, float64(beside)/float64(alone))
		if during > 0 && beside > 2*alone || passed.Load() > 0 {
			t.Errorf("attackers make a known caller wait: %v, %v alone; %d of their reviews were answered", beside, alone, passed.Load())
		}
	}
	p.wantStanding(t)
}

// knownCaller returns the p50 of ordinary reviews with a client certificate, some on a new connection.
func (p *process) knownCaller(t *testing.T, identity tls.Certificate, during time.Duration) time.Duration {
	t.Helper()
	client := p.clientFrom("127.0.0.1", identity)
	var took []time.Duration
	ordinary, end := harness.ReadSample(t, podSample), time.Now().Add(during)
	for n := 0; n < 40 || time.Now().Before(end); n++ {
		if n%10 == 9 {
			client.CloseIdleConnections()
		}
		start := time.Now()
		got, err := send(client, "https://"+p.reviews+"/mutate-pods?timeout=10s", ordinary, nil)
		if err != nil || got.code != http.StatusOK {
			t.Fatalf("a known caller, review %d: %v, %d %.200s", n, err, got.code, got.body)
		}
		took = append(took, time.Since(start))
		time.Sleep(5 * time.Millisecond)
	}
	client.CloseIdleConnections()
	slices.Sort(took)
	t.Logf("%d reviews, p95 %v", len(took), took[len(took)*95/100])
	return took[len(took)/2]
}

// clientFrom returns a client at a loopback address.
func (p *process) clientFrom(source string, identity tls.Certificate) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{RootCAs: p.roots, Certificates: []tls.Certificate{identity}}}}
}

// sendChains posts four reviews a second, each with a chain.
func (p *process) sendChains(ctx context.Context, source string, chains []tls.Certificate, passed *atomic.Int32) {
	for n := 0; ctx.Err() == nil; n++ {
		client := p.clientFrom(source, chains[n%len(chains)])
		if got, err := send(client, "https://"+p.reviews+"/mutate-pods?timeout=1s", []byte("{}"), nil); err == nil && got.code != http.StatusUnauthorized {
			passed.Add(1)
		}
		client.CloseIdleConnections()
		pause(ctx, time.Second/4)
	}
}

// trickle holds a connection with a handshake that never ends, and opens the next one when it is closed.
func (p *process) trickle(ctx context.Context, source string) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	for ctx.Err() == nil {
		c, err := dialer.DialContext(ctx, "tcp", p.reviews)
		for head := []byte("\x16\x03\x01\x02\x00\x01"); err == nil && ctx.Err() == nil; head = []byte{0} {
			_, err = c.Write(head)
			pause(ctx, time.Second/5)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
