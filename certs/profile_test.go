package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/fips140"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNewProfile: names of Go, of OpenSSL and of OpenShift's profiles are known; what is not secure, or leaves nothing, is refused.
func TestNewProfile(t *testing.T) {
	const modern = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256" // of OpenShift, as the next
	const intermediate = modern + ",ECDHE-ECDSA-AES128-GCM-SHA256,ECDHE-RSA-AES128-GCM-SHA256,ECDHE-ECDSA-AES256-GCM-SHA384," +
		"ECDHE-RSA-AES256-GCM-SHA384,ECDHE-ECDSA-CHACHA20-POLY1305,ECDHE-RSA-CHACHA20-POLY1305,DHE-RSA-AES128-GCM-SHA256,DHE-RSA-AES256-GCM-SHA384"
	for _, c := range []struct {
		version, suites, curves string
		want                    Profile
		err                     string
	}{
		{"", "", "", Profile{MinVersion: tls.VersionTLS12}, ""},
		{"intermediate", "", "", Profile{MinVersion: tls.VersionTLS12}, ""},
		{"modern", modern, "", Profile{MinVersion: tls.VersionTLS13}, ""},
		{"VersionTLS13", "", "X25519MLKEM768,secp384r1,CurveP256", Profile{tls.VersionTLS13, nil, []tls.CurveID{tls.X25519MLKEM768, tls.CurveP384, tls.CurveP256}, nil}, ""},
		{"VersionTLS12", intermediate, "", Profile{tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}, nil, []string{"DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-GCM-SHA384"}}, ""},
		{"", "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256,DHE-RSA-CHACHA20-POLY1305", "", Profile{}, "none of them is for TLS 1.2"},
		{"", intermediate + ",DHE-RSA-AES128-SHA256", "", Profile{}, "DHE-RSA-AES128-SHA256: must be some of"},
		{"modern", intermediate, "", Profile{}, "ECDHE-ECDSA-AES128-GCM-SHA256: is for TLS 1.2, which --tls-min-version=modern refuses"},
		{"VersionTLS13", "DHE-RSA-AES128-GCM-SHA256", "", Profile{}, "is for TLS 1.2"},
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
		if err != nil || got.MinVersion != c.want.MinVersion || !slices.Equal(got.Suites, c.want.Suites) || !slices.Equal(got.Curves, c.want.Curves) ||
			!slices.Equal(got.LeftOut, c.want.LeftOut) {
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
	wantHandshake(t, Profile{}, &tls.Config{MaxVersion: tls.VersionTLS12}, true)
	wantHandshake(t, Profile{}, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, false)
	wantHandshake(t, Profile{}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}, false)
	wantHandshake(t, Profile{MinVersion: tls.VersionTLS13}, &tls.Config{MaxVersion: tls.VersionTLS12}, false)
	wantHandshake(t, Profile{MinVersion: tls.VersionTLS13}, &tls.Config{}, true)
	wantHandshake(t, Profile{Suites: aes256}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: aes128}, false)
	wantHandshake(t, Profile{Suites: aes256}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: aes256}, true)
	wantHandshake(t, Profile{Curves: []tls.CurveID{tls.X25519MLKEM768}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, false)
	wantHandshake(t, Profile{Curves: []tls.CurveID{tls.CurveP384}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}}, true)
}

// TestCheck: a profile that leaves nobody, or nobody with TLS 1.2, is reported before anybody connects.
func TestCheck(t *testing.T) {
	rsaOnly := Profile{Suites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}}
	ecdsaOnly := Profile{Suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
	long, _ := rsa.GenerateKey(rand.Reader, 2048)
	odd, _ := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	for _, c := range []struct {
		p          Profile
		key        crypto.Signer // nil for a certificate of usher's own
		warns, err string
	}{
		{Profile{}, nil, "", ""},
		{Profile{}, long, "", ""},
		{rsaOnly, long, "", ""},
		{ecdsaOnly, nil, "", ""},
		{Profile{LeftOut: []string{"DHE-A", "DHE-B"}}, nil, "--tls-cipher-suites: Go does not have DHE-A, DHE-B", ""},
		{rsaOnly, nil, "no client connects with TLS 1.2: --tls-cipher-suites", ""},
		{ecdsaOnly, long, "no client connects with TLS 1.2: --tls-cipher-suites", ""},
		{Profile{Curves: []tls.CurveID{tls.X25519MLKEM768}}, nil, "no client connects with TLS 1.2: --tls-curves", ""},
		{Profile{MinVersion: tls.VersionTLS13, Curves: []tls.CurveID{tls.X25519MLKEM768}}, nil, "", ""},
		{Profile{Curves: []tls.CurveID{tls.CurveP521}}, nil, "", ""}, // for which the client is asked again
		{Profile{}, odd, "", "--cert-dir: no client can connect with this certificate"},
		{Profile{Curves: []tls.CurveID{1}}, nil, "", "--tls-curves: no client can connect with [CurveID(1)] alone"},
	} {
		var served *tls.Certificate
		if c.key != nil {
			template := &x509.Certificate{SerialNumber: big.NewInt(1)}
			der, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
			if err != nil {
				t.Fatal(err)
			}
			served = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.key}
		}
		warnings, err := c.p.Check(served)
		if warned := strings.Join(warnings, "\n"); (warned == "") != (c.warns == "") || !strings.Contains(warned, c.warns) {
			t.Errorf("%+v with %T: warnings %q, want %q", c.p, c.key, warned, c.warns)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%+v with %T: %v, want %s", c.p, c.key, err, c.err)
		}
	}
}

// wantHandshake fails the test if a handshake of client with a server of that profile does not end as wanted.
func wantHandshake(t *testing.T, server Profile, client *tls.Config, ok bool) {
	t.Helper()
	served, err := newAuthority(t, time.Now()).Serving()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.handshake(&served, client); (err == nil) != ok {
		t.Errorf("%v with %v: %v", server, client.CipherSuites, err)
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
	if _, err := (Profile{Curves: []tls.CurveID{tls.X25519}}).Check(nil); err == nil || !strings.Contains(err.Error(), "FIPS 140-3") {
		t.Errorf("curves that Go's module has not: %v", err)
	}
}
