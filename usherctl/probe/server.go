package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"usher.dev/usher/usherctl/report"
)

const (
	stalled = 18 // connections on which nothing comes
	renewal = 14 * 24 * time.Hour
)

// slowKinds are what is sent on a connection before nothing comes, with verbs for the path and the host.
var slowKinds = []struct{ name, sent string }{
	{"half a body", "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n{"},
	{"half a header", "POST %s HTTP/1.1\r\nHost: %s\r\nContent-"},
	{"a TLS handshake", ""}, // not judged: API servers hold silent connections, too
}

// startSlow opens connections on which some of a review comes and then nothing, and returns the test of what has become of them.
func startSlow(ctx context.Context, c *client, patience time.Duration) func(*run) {
	var connections []*tls.Conn
	opened := stalled
	if c.left.Add(-stalled) < 0 {
		opened = 0 // the bound leaves none for them
	}
	for range opened {
		conn, err := dial(ctx, c.hook)
		if err != nil {
			break // each further one would take as long
		}
		connections = append(connections, conn)
	}
	for i, conn := range connections { // after all handshakes: what comes with the end of one is not seen by all servers
		_, _ = io.WriteString(conn, c.hook.slowText(i))
	}
	started := time.Now()
	return func(r *run) {
		defer func() {
			for _, conn := range connections {
				_ = conn.Close()
			}
		}()
		switch {
		case len(connections) < opened && r.was != nil:
			r.fail(nil, "only %d connections could be opened, as long as nothing came on them: whoever holds them keeps all others out",
				len(connections))
			return
		case len(connections) < stalled:
			r.notJudged("only %d of %d connections could be opened", len(connections), stalled)
			return
		}
		if r.was != nil {
			r.sameFor("while others are slow", r.sample.Review)
		}
		open, first := []string(nil), 0
		for i, conn := range connections {
			kind := slowKinds[i%len(slowKinds)]
			if kind.sent != "" && !slices.Contains(open, kind.name) && !ended(conn, started.Add(patience)) {
				if open = append(open, kind.name); len(open) == 1 {
					first = i
				}
			}
		}
		if len(open) > 0 {
			r.fail(c.hook.slowExchange(first, patience), "connections are open %s after %s came and then nothing: "+
				"set ReadTimeout, or ReadHeaderTimeout and a deadline for bodies", patience, strings.Join(open, ", or "))
		}
	}
}

// slowText is what the i-th connection sends.
func (h *Hook) slowText(i int) string {
	sent := slowKinds[i%len(slowKinds)].sent
	if sent == "" {
		return ""
	}
	return fmt.Sprintf(sent, h.url().RequestURI(), h.ServerName)
}

// slowExchange has the command that shows how long the i-th connection stays open.
func (h *Hook) slowExchange(i int, patience time.Duration) *Exchange {
	sent := strings.ReplaceAll(h.slowText(i), "\r\n", `\r\n`)
	return &Exchange{shown: fmt.Sprintf("date; { printf %%b %s; sleep %d; } | { openssl s_client -quiet -connect %s; date; }", report.Word(sent),
		int(patience.Seconds())+5, report.Word(h.host()))} // the second date is that of its end, if it comes before that of sleep
}

// url is where requests are sent: it was parsed before.
func (h *Hook) url() *url.URL {
	u, err := url.Parse(h.URL)
	if err != nil {
		return &url.URL{}
	}
	return u
}

// host is that of the URL with its port.
func (h *Hook) host() string {
	return net.JoinHostPort(h.url().Hostname(), cmp.Or(h.url().Port(), "443"))
}

// ended reports whether the server ends a connection before a time, or has ended it if that is past.
func ended(conn *tls.Conn, before time.Time) bool {
	_ = conn.SetReadDeadline(before.Add(max(0, 100*time.Millisecond-time.Until(before))))
	buffer := make([]byte, 4096)
	for {
		if _, err := conn.Read(buffer); err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

func dial(ctx context.Context, h *Hook) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: h.ServerName}} //nolint:gosec // see certificate
	conn, err := dialer.DialContext(ctx, "tcp", h.host())
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), nil
}

// certificate checks what the API server checks when it connects.
func certificate(r *run) {
	conn, err := dial(r, r.hook)
	if err != nil {
		r.fail(nil, "no TLS connection: %v", err)
		return
	}
	defer func() { _ = conn.Close() }()
	chain := conn.ConnectionState().PeerCertificates
	leaf, between := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: r.hook.ServerName, Roots: r.hook.Roots, Intermediates: between})
	left := time.Until(leaf.NotAfter)
	switch {
	case err != nil:
		r.fail(nil, "the API server would refuse its certificate: %v", err)
	case left < renewal:
		r.fail(nil, "its certificate ends in %d days, on %s", int(left.Hours()/24), leaf.NotAfter.UTC().Format(time.DateOnly))
	}
}
