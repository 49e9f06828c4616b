package certs

import (
	"crypto/fips140"
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNewProfile: names of Go, of OpenSSL and of OpenShift's profiles are known; what is not secure, or leaves nothing, is refused.
func TestNewProfile(t *testing.T) {
	intermediate := "TLS_AES_128_GCM_SHA256,ECDHE-ECDSA-AES128-GCM-SHA256,ECDHE-RSA-AES128-GCM-SHA256,ECDHE-ECDSA-AES256-GCM-SHA384," +
		"ECDHE-RSA-AES256-GCM-SHA384,ECDHE-ECDSA-CHACHA20-POLY1305,ECDHE-RSA-CHACHA20-POLY1305"
	for _, c := range []struct {
		version, suites, curves string
		want                    Profile
		err                     string
	}{
		{"", "", "", Profile{MinVersion: tls.VersionTLS12}, ""},
		{"intermediate", "", "", Profile{MinVersion: tls.VersionTLS12}, ""},
		{"modern", "TLS_AES_256_GCM_SHA384", "", Profile{MinVersion: tls.VersionTLS13}, ""},
		{"VersionTLS13", "", "X25519MLKEM768,secp384r1,CurveP256", Profile{tls.VersionTLS13, nil, []tls.CurveID{tls.X25519MLKEM768, tls.CurveP384, tls.CurveP256}}, ""},
		{"VersionTLS12", intermediate, "", Profile{tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}, nil}, ""},
		{"old", "", "", Profile{}, "--tls-min-version old: must be VersionTLS12"},
		{"VersionTLS11", "", "", Profile{}, "must be VersionTLS12"},
		{"", "TLS_AES_128_GCM_SHA256", "", Profile{}, "none of them is for TLS 1.2"},
		{"", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "", Profile{}, "must be some of those with forward secrecy"},
		{"", "TLS_RSA_WITH_AES_128_GCM_SHA256", "", Profile{}, "must be some of"},
		{"", "AES128-SHA", "", Profile{}, "must be some of"},
		{"", "", "P224", Profile{}, "--tls-curves P224"},
	} {
		got, err := NewProfile(c.version, split(c.suites), split(c.curves))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v, want %s", c, err, c.err)
			}
			continue
		}
		if err != nil || got.MinVersion != c.want.MinVersion || !slices.Equal(got.Suites, c.want.Suites) || !slices.Equal(got.Curves, c.want.Curves) {
			t.Errorf("%s %s %s: %v, %v", c.version, c.suites, c.curves, got, err)
		}
	}
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// TestProfilesHold: a handshake succeeds with what a profile has, and fails with anything else.
func TestProfilesHold(t *testing.T) {
	aes256 := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}
	aes128 := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	for _, c := range []struct {
		server Profile
		client *tls.Config
		ok     bool
	}{
		{Profile{}, &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		{Profile{}, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, false},
		{Profile{}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}}, false},
		{Profile{MinVersion: tls.VersionTLS13}, &tls.Config{MaxVersion: tls.VersionTLS12}, false},
		{Profile{MinVersion: tls.VersionTLS13}, &tls.Config{}, true},
		{Profile{Suites: aes256}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: aes128}, false},
		{Profile{Suites: aes256}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: aes256}, true},
		{Profile{Curves: []tls.CurveID{tls.X25519MLKEM768}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, false},
		{Profile{Curves: []tls.CurveID{tls.CurveP384}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}}, true},
	} {
		wantHandshake(t, c.server, c.client, c.ok)
	}
}

// wantHandshake fails the test if a handshake of client with a server of that profile does not end as wanted.
func wantHandshake(t *testing.T, server Profile, client *tls.Config, ok bool) {
	t.Helper()
	ca := newAuthority(t, time.Now())
	pair := issue(t, ca, time.Now(), local...)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", TLSConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }, server))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if accepted, err := listener.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, accepted) // the handshake, and all until the client ends
			_ = accepted.Close()
		}
	}()
	client.RootCAs = roots
	done, err := tls.Dial("tcp", listener.Addr().String(), client)
	if (err == nil) != ok {
		t.Errorf("%v with %v: %v", server, client.CipherSuites, err)
	}
	if err == nil {
		_ = done.Close()
	}
}

// TestFIPS: with GODEBUG=fips140=on, Go's validated module alone decides what a handshake may use.
func TestFIPS(t *testing.T) {
	if !fips140.Enabled() {
		run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFIPS$", "-test.v")
		run.Env = append(os.Environ(), "GODEBUG=fips140=on")
		if out, err := run.CombinedOutput(); err != nil || strings.Contains(string(out), "SKIP") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for suites, want := range map[uint16]bool{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: false, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: true} {
		wantHandshake(t, Profile{}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suites}}, want)
	}
	wantHandshake(t, Profile{Curves: []tls.CurveID{tls.CurveP256}}, &tls.Config{}, true)
	wantHandshake(t, Profile{Curves: []tls.CurveID{tls.X25519}}, &tls.Config{}, false)
}
