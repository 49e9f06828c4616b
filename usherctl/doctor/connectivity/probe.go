package connectivity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/report"
)

// connectTime is the timeout for making a connection. Inside a cluster it takes milliseconds; a machine outside
// may wait in vain.
const connectTime = time.Second

// handshake is the result of a TLS handshake with a server.
type handshake struct {
	address string
	chain   []*x509.Certificate
	err     error // nil if chain is not empty
	demands bool  // it ends the connection of a client without a certificate
}

// candidate is a possible address of a server. On this machine's network, the address of a Service or pod may belong to
// another server, unless it is certain.
type candidate struct {
	address string
	certain bool
}

// connections caches TLS handshakes by server name and address. It makes one handshake at a time with each address.
type connections struct {
	lock  sync.Mutex
	made  map[[2]string]func() handshake
	turns map[string]*sync.Mutex
}

// shake returns the handshake with an address, which is made once.
func (c *connections) shake(ctx context.Context, name, address string) handshake {
	c.lock.Lock()
	if c.made == nil {
		c.made, c.turns = map[[2]string]func() handshake{}, map[string]*sync.Mutex{}
	}
	key := [2]string{name, address}
	if c.turns[address] == nil {
		c.turns[address] = &sync.Mutex{}
	}
	if turn := c.turns[address]; c.made[key] == nil {
		c.made[key] = sync.OnceValue(func() handshake {
			turn.Lock()
			defer turn.Unlock()
			return shake(ctx, name, address)
		})
	}
	made := c.made[key]
	c.lock.Unlock()
	return made()
}

// probe calls all addresses of one server at the same time, and returns the first handshake that shows anything: a
// certificate, or why there is none. It sends no request. is reports whether a certificate is the server's, for
// addresses that are not certain. dead are the handshakes with addresses that fail while another one does not.
func (c *connections) probe(ctx context.Context, name string, all []candidate, is func([]*x509.Certificate) bool) (best handshake, dead []handshake) {
	type result struct {
		handshake
		certain bool
	}
	results, certain := make(chan result, len(all)), 0 // those whose result is awaited
	for _, to := range all {
		if to.certain {
			certain++
		}
		go func() {
			h := c.shake(ctx, name, to.address)
			if !to.certain && (h.err != nil || !is(h.chain)) {
				h = handshake{address: to.address, err: errUnreachable}
			}
			results <- result{h, to.certain}
		}()
	}
	best = handshake{err: errUnreachable}
	enough := (<-chan time.Time)(nil) // until one answers
	for range all {
		select {
		case next := <-results:
			switch {
			case next.err == nil && enough == nil:
				best, enough = next.handshake, time.After(connectTime)
			case next.err != nil && telling(next.err) > 0:
				dead = append(dead, next.handshake)
			}
			if next.certain {
				certain--
			}
			if enough != nil && certain == 0 {
				return best, dead
			}
		case <-enough:
			return best, dead
		}
	}
	if enough == nil {
		return worstOf(dead), nil
	}
	return best, dead
}

// worstOf returns the handshake that says most about a server.
func worstOf(failed []handshake) handshake {
	worst := handshake{err: errUnreachable}
	for _, h := range failed {
		if telling(h.err) > telling(worst.err) {
			worst = h
		}
	}
	return worst
}

// Inside reports whether the ClusterIPs of a cluster can be called from this machine: whether its API server answers at
// its own. roots are the CAs of that.
func Inside(ctx context.Context, source reader.Source, roots *x509.CertPool) bool {
	if roots == nil {
		return false
	}
	service, err := reader.One[corev1.Service](source.Get(ctx, reader.NewKind("", "v1", "Service", "services"), "default", "kubernetes"))
	if err != nil || len(service.Spec.Ports) == 0 {
		return false
	}
	const name = "kubernetes.default.svc"
	h := shake(ctx, name, net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(service.Spec.Ports[0].Port))))
	if len(h.chain) == 0 {
		return false
	}
	return verify(h.chain, x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: source.Now()}) == nil
}

// local reports whether an address is one of this machine.
func local(address string) bool {
	host, _, err := net.SplitHostPort(address)
	all, interfacesErr := net.InterfaceAddrs()
	return errors.Join(err, interfacesErr) == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		of, is := a.(*net.IPNet)
		return is && of.IP.String() == host
	})
}

// errUnreachable is the error of a server that cannot be reached from this machine, which says nothing about the API
// server.
var errUnreachable = errors.New("cannot be reached from this machine")

// telling returns how much an error says about the server.
func telling(err error) int {
	switch {
	case errors.Is(err, errUnreachable):
		return 0
	case errors.Is(err, syscall.ECONNREFUSED):
		return 1
	}
	return 2
}

// shake makes one connection and the handshake on it, within reader.Timeout.
func shake(ctx context.Context, name, address string) handshake {
	ctx, cancel := context.WithTimeout(ctx, reader.Timeout)
	defer cancel()
	dialer := net.Dialer{Timeout: connectTime}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		unknown, isDNS := errors.AsType[*net.DNSError](err)
		if !errors.Is(err, syscall.ECONNREFUSED) && (!isDNS || !unknown.IsNotFound) {
			err = errUnreachable
		}
		return handshake{address: address, err: err}
	}
	defer func() { _ = connection.Close() }()
	h, asked := handshake{address: address}, false
	client := tls.Client(connection, &tls.Config{ServerName: name, InsecureSkipVerify: true, // it is verified later, by a clock and a caBundle
		VerifyConnection: func(state tls.ConnectionState) error { h.chain = state.PeerCertificates; return nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			asked = true
			return &tls.Certificate{}, nil
		}})
	h.err = client.HandshakeContext(ctx)
	if asked && h.err == nil { // TLS 1.3: the server's answer to it comes later
		_ = client.SetReadDeadline(time.Now().Add(connectTime))
		_, h.err = client.Read(make([]byte, 1))
		if timed, is := errors.AsType[net.Error](h.err); is && timed.Timeout() {
			h.err = nil
		}
	}
	if h.demands = asked && h.err != nil; len(h.chain) > 0 {
		h.err = nil
	}
	return h
}

// demandProblem returns the finding for a server that demands a certificate of the API server.
func demandProblem(about Subject, h handshake) *Problem {
	return problem("client-certificate-demanded", about, "%s (%s) demands a certificate of its clients. Whether the API server has one for it, in the "+
		"kubeConfigFile that its --admission-control-config-file names, cannot be seen; without one, each call fails.", about.Target,
		h.address).as(report.Unknown)
}

// handshakeProblem returns the finding for a handshake without a certificate. It is nil if there is one, or nothing was found out.
func handshakeProblem(w Webhook, t Target, h handshake) *Problem {
	about := Subject{Target: t}
	record, notTLS := errors.AsType[tls.RecordHeaderError](h.err)
	unknown, isDNS := errors.AsType[*net.DNSError](h.err)
	timed, isNet := errors.AsType[net.Error](h.err) // as an exceeded deadline is, too
	switch {
	case h.err == nil, errors.Is(h.err, errUnreachable), isDNS && internal(unknown.Name):
		return nil
	case isDNS:
		return problem("url-host-unknown", about, "clientConfig.url is %q, and no host %s is known. %s", t.URL, unknown.Name,
			w.Consequence)
	case errors.Is(h.err, syscall.ECONNREFUSED):
		return problem("connection-refused", about, "%s refuses connections (%s): nothing listens there. The targetPort of a Service "+
			"must be the port that the container listens on. %s", t, h.address, w.Consequence)
	case notTLS && strings.HasPrefix(string(record.RecordHeader[:]), "HTTP"):
		return problem("plain-http", about, "%s (%s) answers with plain HTTP, and the API server calls webhooks by HTTPS only. Serve "+
			"TLS; usher: without --plain. %s", t, h.address, w.Consequence)
	case isNet && timed.Timeout():
		return problem("handshake-timeout", about, "%s (%s) accepts connections, and has not answered a TLS handshake within %s. %s",
			t, h.address, reader.Timeout, w.Consequence)
	}
	return problem("handshake-failed", about, "%s (%s) has ended the TLS handshake: %v. %s", t, h.address, h.err, w.Consequence)
}

// internal reports whether a host may be known to the machines of the control plane alone.
func internal(host string) bool {
	return strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host,
		".internal") || !strings.Contains(host, ".")
}

// loopback reports whether a host is the machine of the caller.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
