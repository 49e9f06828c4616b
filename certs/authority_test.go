package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"
)

// now is when the tests that need no real clock take place.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newAuthority(t testing.TB, at time.Time) Pair {
	t.Helper()
	ca, err := NewAuthority(at)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t testing.TB, ca Pair, at time.Time, names ...string) Pair {
	t.Helper()
	leaf, err := Issue(ca, names, at)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func parsed(t testing.TB, p Pair) *x509.Certificate {
	t.Helper()
	cert, err := p.load("certificate", "key")
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf
}

// verify checks a leaf like a client that trusts the CAs in bundle.
func verify(leaf *x509.Certificate, bundle []byte, host string, at time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: at})
	return err
}

func TestIssueVerifiesForItsNamesOnly(t *testing.T) {
	names, err := ServiceNames("shop/usher")
	if err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t, now)
	leaf := parsed(t, issue(t, ca, now, names...))
	for _, name := range names {
		if err := verify(leaf, ca.Cert, name, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"usher.other.svc", "example.com", "127.0.0.2", "svc"} {
		if verify(leaf, ca.Cert, name, now) == nil {
			t.Errorf("%s: verifies, though it was not asked for", name)
		}
	}
	if verify(leaf, newAuthority(t, now).Cert, names[0], now) == nil {
		t.Error("verifies under another CA")
	}
	if leaf.Subject.CommonName != names[0] {
		t.Errorf("common name %q, want the first name, %q", leaf.Subject.CommonName, names[0])
	}
}

func TestProfiles(t *testing.T) {
	ca := newAuthority(t, now)
	authority, leaf := parsed(t, ca), parsed(t, issue(t, ca, now, "localhost"))
	if bytes.Equal(authority.RawSubject, leaf.RawSubject) {
		t.Errorf("CA and leaf have the same subject, %s", leaf.Subject)
	}
	if !authority.IsCA || !authority.MaxPathLenZero || authority.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign {
		t.Errorf("CA: IsCA %v, MaxPathLenZero %v, key usage %b", authority.IsCA, authority.MaxPathLenZero, authority.KeyUsage)
	}
	if leaf.IsCA || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("leaf: IsCA %v, extended key usage %v", leaf.IsCA, leaf.ExtKeyUsage)
	}
	for _, cert := range []*x509.Certificate{authority, leaf} {
		if key, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
			t.Errorf("%s: key is %T, want ECDSA P-256", cert.Subject, cert.PublicKey)
		}
		if cert.SerialNumber.BitLen() < 64 {
			t.Errorf("%s: serial number %x is no random one", cert.Subject, cert.SerialNumber)
		}
		if !cert.NotBefore.Before(now) {
			t.Errorf("%s: leaves no room for a clock that is behind", cert.Subject)
		}
	}
	if !strings.HasPrefix(string(ca.Key), "-----BEGIN PRIVATE KEY-----\n") {
		t.Error("key is not PKCS#8")
	}
}

func TestLeafNeverOutlivesItsAuthority(t *testing.T) {
	ca := newAuthority(t, now)
	end := parsed(t, ca).NotAfter
	for _, at := range []time.Time{now, now.AddDate(0, 6, 0), end} {
		leaf := parsed(t, issue(t, ca, at, "localhost"))
		if leaf.NotAfter.After(end) {
			t.Errorf("issued at %s: leaf ends %s, CA %s", at, leaf.NotAfter, end)
		}
	}
	for _, at := range []time.Time{end.Add(time.Second), now.Add(-time.Hour)} {
		if _, err := Issue(ca, []string{"localhost"}, at); err == nil {
			t.Errorf("a CA that is not valid at %s issued a certificate", at)
		}
	}
}

// TestMadeAt: when a CA was made is known whatever its lifetime, to the second.
func TestMadeAt(t *testing.T) {
	for _, life := range []time.Duration{22 * time.Second, 10 * time.Minute, time.Hour, 365 * 24 * time.Hour} {
		ca, err := NewAuthorityUntil(now, now.Add(life))
		if err != nil {
			t.Fatal(err)
		}
		if off := MadeAt(parsed(t, ca)).Sub(now).Abs(); off > time.Second {
			t.Errorf("a CA for %s: off by %s", life, off)
		}
	}
	if leaf := parsed(t, issue(t, newAuthority(t, now), now, "localhost")); MadeAt(leaf) != leaf.NotBefore {
		t.Error("a certificate of another name is taken to be dated back")
	}
}

// During a change of CA the bundle holds both, which have the same subject.
func TestOldAndNewAuthorityInOneBundle(t *testing.T) {
	older, newer := newAuthority(t, now), newAuthority(t, now)
	bundle := slices.Concat(newer.Cert, older.Cert)
	for _, ca := range []Pair{older, newer} {
		if err := verify(parsed(t, issue(t, ca, now, "localhost")), bundle, "localhost", now); err != nil {
			t.Error(err)
		}
	}
}

func TestIssueRefuses(t *testing.T) {
	ca := newAuthority(t, now)
	leaf := issue(t, ca, now, "localhost")
	for _, test := range []struct {
		name  string
		ca    Pair
		names []string
		want  string
	}{
		{"no names", ca, nil, "at least one name"},
		{"empty name", ca, []string{""}, `"" is neither`},
		{"URL", ca, []string{"https://usher"}, `"https://usher" is neither`},
		{"brackets", ca, []string{"[::1]"}, `"[::1]" is neither`},
		{"leaf as CA", leaf, []string{"a"}, "is not a CA"},
		{"key of another", Pair{ca.Cert, leaf.Key}, []string{"a"}, "the CA key: tls: private key does not match"},
		{"no CA", Pair{}, []string{"a"}, "the CA certificate: holds no certificate"},
	} {
		_, err := Issue(test.ca, test.names, now)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
}

func TestServiceNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, test := range []struct {
		service string
		want    string // empty: an error that tells the form
	}{
		{"", "localhost 127.0.0.1 ::1"},
		{"shop/usher", "usher.shop.svc usher.shop usher localhost 127.0.0.1 ::1"},
		{"1/0-0", "0-0.1.svc 0-0.1 0-0 localhost 127.0.0.1 ::1"},
		{long + "/b", "b." + long + ".svc b." + long + " b localhost 127.0.0.1 ::1"},
		{long + "a/b", ""}, {"usher", ""}, {"/usher", ""}, {"shop/", ""}, {"shop/usher/x", ""},
		{"shop/Usher", ""}, {"shop/-usher", ""}, {"shop-/usher", ""}, {"shop/us.her", ""}, {"shop/usher\n", ""},
	} {
		names, err := ServiceNames(test.service)
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%q: got %q, want %q", test.service, got, test.want)
		}
		if test.want == "" && (err == nil || !strings.Contains(err.Error(), "namespace/name")) {
			t.Errorf("%q: error %v does not tell the form", test.service, err)
		}
	}
}

// The common name has at most 64 characters, a Service's name in the cluster up to 131.
func TestLongNameIsNoCommonName(t *testing.T) {
	ca := newAuthority(t, now)
	name := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + ".svc"
	leaf := parsed(t, issue(t, ca, now, name))
	if leaf.Subject.CommonName != "" || bytes.Equal(leaf.RawSubject, parsed(t, ca).RawSubject) {
		t.Errorf("subject %s, want no common name, and not that of the CA", leaf.Subject)
	}
	if err := verify(leaf, ca.Cert, name, now); err != nil {
		t.Error(err)
	}
}

// FuzzLoad: no text makes the loader panic, and a pair that loads has a key that belongs to its certificate.
func FuzzLoad(f *testing.F) {
	ca := newAuthority(f, now)
	leaf := issue(f, ca, now, "localhost")
	chain := slices.Concat(leaf.Cert, ca.Cert)
	f.Add(leaf.Cert, leaf.Key)
	f.Add(leaf.Cert, ca.Key)
	f.Add(leaf.Key, leaf.Cert)
	f.Add(chain, leaf.Key)
	f.Add(chain[:len(chain)-40], leaf.Key)
	f.Add(leaf.Cert[:len(leaf.Cert)/2], leaf.Key)
	f.Add(slices.Concat(leaf.Key, leaf.Cert), slices.Concat(leaf.Cert, leaf.Key))
	f.Add([]byte{}, []byte("-----BEGIN EC PARAMETERS-----\n"))
	f.Fuzz(func(t *testing.T, cert, key []byte) {
		got, err := Pair{cert, key}.load("certificate", "key")
		if err != nil {
			return
		}
		// A signature made with the key has to verify under the certificate, whatever the kind of key.
		template := &x509.Certificate{NotBefore: now, NotAfter: now}
		der, err := x509.CreateCertificate(rand.Reader, template, template, got.Leaf.PublicKey, got.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		made, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Leaf.CheckSignature(made.SignatureAlgorithm, made.RawTBSCertificate, made.Signature); err != nil {
			t.Errorf("loaded the key of another certificate: %v", err)
		}
	})
}
