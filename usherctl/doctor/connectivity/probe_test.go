package connectivity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/apiserver"
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
			h, _ := (&connections{}).probe(t.Context(), at.name(), []candidate{{c.address, c.certain}}, func([]*x509.Certificate) bool { return false })
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

// TestDemands: a server that requires a client certificate is distinguished from one that accepts clients without one.
func TestDemands(t *testing.T) {
	now := time.Now()
	ca := newAuthority(t, now.Add(-time.Hour), now.Add(time.Hour))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for auth, want := range map[tls.ClientAuthType]string{tls.RequireAnyClientCert: "client-certificate-demanded", tls.RequestClientCert: "", tls.NoClientCert: ""} {
			config := &tls.Config{ClientAuth: auth, MaxVersion: version,
				Certificates: []tls.Certificate{{Certificate: [][]byte{ca.certificate.Raw}, PrivateKey: ca.key}}}
			address := listen(t, func(l net.Listener) { _ = http.Serve(tls.NewListener(l, config), http.NotFoundHandler()) })
			h, _ := (&connections{}).probe(t.Context(), "a", []candidate{{address, true}}, nil)
			w := hook(nil)
			service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Port: 443}}}}
			cluster := &Cluster{backends: map[Target]*backend{TargetOf(w.Client): {handshake: h, service: service}}}
			w.Annotations = map[string]string{"cert-manager.io/inject-apiserver-ca": "true"}
			var ids []string
			for _, p := range cluster.Problems(w) {
				if p.ID == "client-certificate-demanded" {
					ids = append(ids, p.ID)
				}
			}
			if strings.Join(ids, " ") != want || h.chain == nil {
				t.Errorf("%x, %v: %v, want %q: %+v", version, auth, ids, want, h)
			}
		}
	}
}

// TestSomeEndpoints: an endpoint that does not answer, or is not ready, beside one that does, is found; one that ends is none.
func TestSomeEndpoints(t *testing.T) {
	now := time.Now()
	ca := newAuthority(t, now.Add(-time.Hour), now.Add(time.Hour))
	pair := tls.Certificate{Certificate: [][]byte{ca.certificate.Raw}, PrivateKey: ca.key}
	good := listen(t, func(l net.Listener) {
		_ = http.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}}), http.NotFoundHandler())
	})
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := gone.Addr().String()
	_ = gone.Close()
	if h, dead := (&connections{}).probe(t.Context(), "a", []candidate{{closed, true}, {good, true}}, nil); h.err != nil || len(dead) != 1 || dead[0].address != closed {
		t.Errorf("%+v %+v", h, dead)
	}
	if h, dead := (&connections{}).probe(t.Context(), "a", []candidate{{good, true}, {good, true}}, nil); h.err != nil || len(dead) > 0 {
		t.Errorf("%+v %+v", h, dead)
	}
	const ready, ends = 0, 2
	for _, c := range []struct {
		states []int // 0: ready, 1: not, 2: not, and it ends
		dead   []string
		want   string
	}{
		{[]int{ready, ready}, nil, ""}, {[]int{ready, 1}, nil, "not ready: 1 of the 2"}, {[]int{ready, ends}, nil, ""}, {[]int{1, 1}, nil, ""},
		{[]int{ready, ready}, []string{closed}, "Some calls fail"},
	} {
		b := &backend{dead: c.dead, service: corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"}}}
		slice := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: "svc"}}}
		for _, state := range c.states {
			conditions := discoveryv1.EndpointConditions{Ready: new(state == ready), Terminating: new(state == ends)}
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Conditions: conditions})
		}
		b.slices = []discoveryv1.EndpointSlice{slice}
		text := ""
		for _, p := range b.partlyProblems(hook(nil)) {
			text += p.Text
		}
		if (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%v %v: %q, want %q", c.states, c.dead, text, c.want)
		}
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
	h, _ := (&connections{}).probe(t.Context(), "a", []candidate{{silent, true}, {good, true}}, nil)
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
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: default}\nspec: {clusterIP: " + host + ", ports: [{port: " + port + "}]}\n"
	source := filesWith(t, text)
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

// TestOneConnectionToAnAddress: webhooks of one server are judged by one connection, as a small server may take no more.
func TestOneConnectionToAnAddress(t *testing.T) {
	now := time.Now()
	ca := newAuthority(t, now.Add(-time.Hour), now.Add(time.Hour))
	pair := tls.Certificate{Certificate: [][]byte{ca.certificate.Raw}, PrivateKey: ca.key}
	var made atomic.Int32
	address := listen(t, func(l net.Listener) {
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			if made.Add(1); made.Load() > 1 { // it is busy
				continue
			}
			_ = tls.Server(connection, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake()
		}
	})
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	client, err := apiserver.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var all []Webhook
	for _, path := range strings.Fields("a b c d e f g h") {
		all = append(all, hook(func(w *Webhook) {
			w.Client.Service, w.Client.URL, w.Client.CABundle = nil, new("https://"+address+"/"+path), ca.pem()
		}))
	}
	c := &Cluster{Source: reader.API(client)}
	c.Read(t.Context(), all)
	for _, w := range all {
		if h := c.backends[TargetOf(w.Client)].handshake; h.chain == nil {
			t.Errorf("%s: %v", *w.Client.URL, h.err)
		}
	}
	if made.Load() != 1 {
		t.Errorf("%d connections", made.Load())
	}
}
