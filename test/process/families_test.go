package process

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"
)

// TestBothFamilies: what listens on all addresses, as in a pod, serves IPv4 and IPv6; what listens on one serves that one.
func TestBothFamilies(t *testing.T) {
	for listen, hosts := range map[string][]string{":0": {"127.0.0.1", "::1"}, "[::]:0": {"127.0.0.1", "::1"}, "[::1]:0": {"::1"}} {
		s := start(t, "--suite=core", "--listen="+listen, "--ops-listen="+listen)
		for _, host := range hosts {
			of := func(address string) string {
				_, port, err := net.SplitHostPort(address)
				if err != nil {
					t.Fatal(err)
				}
				return net.JoinHostPort(host, port)
			}
			if code, text := s.get(t, "https://"+of(s.reviews)+"/healthz"); code != http.StatusOK || text != "ok\n" {
				t.Errorf("--listen=%s: %s answers %d %q", listen, host, code, text)
			}
			if code, text := s.get(t, "http://"+of(s.operations)+"/readyz"); code != http.StatusOK {
				t.Errorf("--ops-listen=%s: %s answers %d %q", listen, host, code, text)
			}
		}
		s.stop()
	}
}

// TestProfileIsServed: the flags about TLS reach the listener for reviews, and the log says what they leave out.
func TestProfileIsServed(t *testing.T) {
	s := start(t, "--suite=core", "--tls-min-version=modern", "--tls-curves=X25519MLKEM768,P256")
	of := s.client.Transport.(*http.Transport).TLSClientConfig
	for client, ok := range map[*tls.Config]bool{
		{MaxVersion: tls.VersionTLS12}: false, {CurvePreferences: []tls.CurveID{tls.X25519}}: false,
		{CurvePreferences: []tls.CurveID{tls.CurveP256}}: true, {}: true,
	} {
		client.RootCAs = of.RootCAs
		connection, err := tls.Dial("tcp", s.reviews, client)
		if (err == nil) != ok {
			t.Errorf("version up to %x, curves %v: %v", client.MaxVersion, client.CurvePreferences, err)
		}
		if err == nil {
			_ = connection.Close()
		}
	}
	s = start(t, "--suite=core", "--tls-cipher-suites=ECDHE-RSA-AES128-GCM-SHA256,DHE-RSA-AES128-GCM-SHA256")
	s.waitLog(t, "Go does not have DHE-RSA-AES128-GCM-SHA256")
	s.waitLog(t, "no client connects with TLS 1.2: --tls-cipher-suites")
}
