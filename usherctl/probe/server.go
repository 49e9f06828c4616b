package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

const (
	stalled = 16 // connections on which nothing comes
	renewal = 14 * 24 * time.Hour
)

// startSlow opens connections that send half a review and then nothing, and returns the test of what has become of them.
func startSlow(ctx context.Context, c *client, patience time.Duration) func(*run) {
	var connections []*tls.Conn
	path, started := "/", time.Now()
	if u, err := url.Parse(c.hook.URL); err == nil {
		path = u.RequestURI()
	}
	opened := stalled
	if c.left.Add(-stalled) < 0 {
		opened = 0 // the bound leaves none for them
	}
	for range opened {
		conn, err := dial(ctx, c.hook)
		if err != nil {
			break // each further one would take as long
		}
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n{",
			path, c.hook.ServerName)
		connections = append(connections, conn)
	}
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
		open := 0
		for _, conn := range connections {
			if !ended(conn, started.Add(patience)) {
				open++
			}
		}
		if open > 0 {
			r.fail(nil, "%d of %d connections on which nothing came are open after %s: "+
				"set ReadTimeout, or ReadHeaderTimeout and a deadline for bodies", open, stalled,
				patience)
		}
	}
}

// ended reports whether the server ends a connection before a time.
func ended(conn *tls.Conn, before time.Time) bool {
	_ = conn.SetReadDeadline(before)
	buffer := make([]byte, 4096)
	for {
		if _, err := conn.Read(buffer); err != nil {
			var timeout net.Error
			return !errors.As(err, &timeout) || !timeout.Timeout()
		}
	}
}

func dial(ctx context.Context, h *Hook) (*tls.Conn, error) {
	u, err := url.Parse(h.URL)
	if err != nil {
		return nil, err
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: h.ServerName}} //nolint:gosec // see certificate
	conn, err := dialer.DialContext(ctx, "tcp", host)
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
