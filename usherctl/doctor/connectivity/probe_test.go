package connectivity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher.dev/usher/cluster/reader"
)

// listen starts a server on this machine, and returns its address.
func listen(t *testing.T, serve func(net.Listener)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go serve(l)
	return l.Addr().String()
}

// TestProbe: each kind of server leads to its finding, and what is not certain to be the server to none.
func TestProbe(t *testing.T) {
	now := time.Now()
	ca := newAuthority(t, now.Add(-time.Hour), now.Add(time.Hour))
	key := ca.key
	leaf := ca.certificate // it signs itself
	speaks := func(config *tls.Config) func(net.Listener) {
		config.Certificates = []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}
		return func(l net.Listener) { _ = http.Serve(tls.NewListener(l, config), http.NotFoundHandler()) }
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := gone.Addr().String()
	_ = gone.Close()
	for _, c := range []struct {
		name    string
		address string
		want    string // "": a certificate is seen, or nothing
		certain bool
		seen    bool
	}{
		{"TLS", listen(t, speaks(&tls.Config{})), "", true, true},
		{"TLS that asks for a certificate", listen(t, speaks(&tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12})), "", true, true},
		{"HTTP", listen(t, func(l net.Listener) { _ = http.Serve(l, http.NotFoundHandler()) }), "plain-http", true, false},
		{"nothing", closed, "connection-refused", true, false},
		{"a stranger", closed, "", false, false},
		{"a stranger with a certificate", listen(t, speaks(&tls.Config{})), "", false, false},
		{"something else", listen(t, func(l net.Listener) {
			for {
				connection, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = connection.Write([]byte("SSH-2.0-OpenSSH\r\n"))
				_ = connection.Close()
			}
		}), "handshake-failed", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hook(nil)
			at := TargetOf(w.Client)
			h := probe(t.Context(), at.name(), []candidate{{c.address, c.certain}}, func([]*x509.Certificate) bool { return false })
			if (h.chain != nil) != c.seen || (h.err == nil) != c.seen {
				t.Errorf("%+v", h)
			}
			expectOne(t, some(handshakeProblem(w, at, h)), c.want)
		})
	}
}

// TestHandshakeErrors: each way in which a handshake fails has a finding of its own.
func TestHandshakeErrors(t *testing.T) {
	unknown := &net.DNSError{Name: "webhook.example.com", IsNotFound: true}
	for _, c := range []struct {
		name, url string
		err       error
		want      string
	}{
		{"unknown host", "https://webhook.example.com/", unknown, "url-host-unknown"},
		{"a host of the control plane", "https://a.internal/", &net.DNSError{Name: "a.internal", IsNotFound: true}, ""},
		{"no answer", "", context.DeadlineExceeded, "handshake-timeout"},
		{"out of reach", "", errUnreachable, ""},
		{"refused", "", syscall.ECONNREFUSED, "connection-refused"},
		{"anything else", "", errors.New("remote error: tls: internal error"), "handshake-failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hook(func(w *Webhook) {
				if c.url != "" {
					w.Client.Service, w.Client.URL = nil, &c.url
				}
			})
			expectOne(t, some(handshakeProblem(w, TargetOf(w.Client), handshake{address: "10.0.0.1:443", err: c.err})), c.want)
		})
	}
}

// TestProbeTakesTheFirst: one address that answers is enough.
func TestProbeTakesTheFirst(t *testing.T) {
	now := time.Now()
	ca := newAuthority(t, now.Add(-time.Hour), now.Add(time.Hour))
	pair := tls.Certificate{Certificate: [][]byte{ca.certificate.Raw}, PrivateKey: ca.key}
	good := listen(t, func(l net.Listener) {
		_ = http.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}}), http.NotFoundHandler())
	})
	silent := listen(t, func(net.Listener) {})
	h := probe(t.Context(), "a", []candidate{{silent, true}, {good, true}}, nil)
	if h.err != nil || h.address != good {
		t.Errorf("%+v", h)
	}
}

// TestInsideEnds: something that takes connections to ClusterIPs and answers none, such as a proxy, is not waited for.
func TestInsideEnds(t *testing.T) {
	t.Parallel() // it takes as long as a probe
	host, port, err := net.SplitHostPort(listen(t, func(net.Listener) {}))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: default}\nspec: {clusterIP: " + host + ", ports: [{port: " + port + "}]}\n"
	if err := os.WriteFile(filepath.Join(dir, "service.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := reader.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*reader.Timeout)
	defer cancel()
	if Inside(ctx, source, x509.NewCertPool()) || ctx.Err() != nil {
		t.Errorf("inside: %v", ctx.Err())
	}
}

func TestInternalHosts(t *testing.T) {
	for host, want := range map[string]bool{"a.b.svc": true, "a.cluster.local": true, "node-1": true, "example.com": false} {
		if internal(host) != want {
			t.Errorf("%s: %t", host, !want)
		}
	}
	if !loopback("127.0.0.1") || !loopback("localhost") || loopback("example.com") || loopback("") || !local("127.0.0.1:1") {
		t.Error("loopback")
	}
	if got, problem := addressOf("https://example.com/a"); got != "example.com:443" || problem != nil {
		t.Error(got, problem)
	}
	if name := (Target{URL: "https://example.com:8443/a"}).name(); name != "example.com" || !strings.Contains((Target{}).String(), "Service") {
		t.Error(name)
	}
}
