package certs

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Profile has the TLS versions, cipher suites and curves of a server. The zero value is Mozilla's profile intermediate.
type Profile struct {
	MinVersion uint16        // tls.VersionTLS12 or tls.VersionTLS13
	Suites     []uint16      // for TLS 1.2; those of TLS 1.3 cannot be chosen
	Curves     []tls.CurveID // for the key exchange; empty stands for Go's choice, with post-quantum ones first
	LeftOut    []string      // suites that were named, and that Go does not have
}

// forwardSecret are the cipher suites for TLS 1.2 with forward secrecy and authenticated encryption.
var forwardSecret = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// notInGo are such suites that profiles of OpenShift and Mozilla name, and Go does not have.
var notInGo = []string{"TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256"}

// NewProfile returns the profile of a minimum version, cipher suites and curves, each by the names that API servers, OpenShift's profiles
// and OpenSSL use. The version may also be the name of one of Mozilla's profiles, intermediate or modern. What is empty is the default.
func NewProfile(version string, suites, curves []string) (p Profile, err error) {
	switch version {
	case "", "intermediate", "VersionTLS12":
		p.MinVersion = tls.VersionTLS12
	case "modern", "VersionTLS13":
		p.MinVersion = tls.VersionTLS13
	default:
		return p, fmt.Errorf("--tls-min-version %s: must be VersionTLS12, VersionTLS13, or a profile: intermediate, modern", version)
	}
	for _, name := range suites {
		id, of13, err := suiteOf(name)
		switch {
		case err != nil:
			return p, err
		case of13:
		case p.MinVersion == tls.VersionTLS13:
			return p, fmt.Errorf("--tls-cipher-suites %s: is for TLS 1.2, which --tls-min-version=%s refuses: leave out one of them", name, version)
		case id == 0:
			p.LeftOut = append(p.LeftOut, name)
		default:
			p.Suites = append(p.Suites, id)
		}
	}
	if len(suites) > 0 && len(p.Suites) == 0 && p.MinVersion < tls.VersionTLS13 {
		return p, fmt.Errorf("--tls-cipher-suites %s: none of them is for TLS 1.2 and in Go; add one, or set --tls-min-version=VersionTLS13",
			strings.Join(suites, ","))
	}
	for _, name := range curves {
		id, known := curveNames[strings.ToLower(name)]
		if !known {
			return p, fmt.Errorf("--tls-curves %s: must be some of X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024, X25519, P256, P384, P521", name)
		}
		p.Curves = append(p.Curves, id)
	}
	return p, nil
}

// curveNames are the groups for the key exchange, in lower case.
var curveNames = map[string]tls.CurveID{
	"x25519mlkem768": tls.X25519MLKEM768, "secp256r1mlkem768": tls.SecP256r1MLKEM768, "secp384r1mlkem1024": tls.SecP384r1MLKEM1024,
	"x25519": tls.X25519, "p256": tls.CurveP256, "p384": tls.CurveP384, "p521": tls.CurveP521,
	"curvep256": tls.CurveP256, "curvep384": tls.CurveP384, "curvep521": tls.CurveP521,
	"secp256r1": tls.CurveP256, "secp384r1": tls.CurveP384, "secp521r1": tls.CurveP521,
}

// suiteOf returns a cipher suite by its name in Go or in OpenSSL, 0 for one of notInGo, and whether it is one of TLS 1.3.
func suiteOf(name string) (id uint16, of13 bool, err error) {
	is := func(known string) bool { return name == known || name == openSSL(known) }
	if slices.ContainsFunc(notInGo, is) {
		return 0, false, nil
	}
	for _, s := range tls.CipherSuites() {
		if !is(s.Name) {
			continue
		}
		if of13 := slices.Equal(s.SupportedVersions, []uint16{tls.VersionTLS13}); of13 || slices.Contains(forwardSecret, s.ID) {
			return s.ID, of13, nil
		}
	}
	var known []string
	for _, id := range forwardSecret {
		known = append(known, tls.CipherSuiteName(id))
	}
	return 0, false, fmt.Errorf("--tls-cipher-suites %s: must be some of those with forward secrecy and authenticated encryption: %s",
		name, strings.Join(known, ", "))
}

// openSSL returns the name that OpenSSL has for a suite, such as ECDHE-RSA-AES128-GCM-SHA256.
func openSSL(name string) string {
	name = strings.NewReplacer("_WITH_", "-", "AES_", "AES", "_", "-").Replace(strings.TrimPrefix(name, "TLS_"))
	if strings.Contains(name, "POLY1305") {
		name = strings.TrimSuffix(name, "-SHA256")
	}
	return name
}

// Check returns warnings about a profile, or an error if it leaves no handshake with a certificate; nil stands for one that usher issues.
func (p Profile) Check(served *tls.Certificate) (warnings []string, err error) {
	if served == nil {
		ca, err := NewAuthority(time.Now()) // with a key like that of a leaf
		own, err2 := ca.Serving()
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		served = &own
	}
	if err := (Profile{}).handshake(served, &tls.Config{}); err != nil {
		return nil, fmt.Errorf("--cert-dir: no client can connect with this certificate: %w; "+
			"its key must be ECDSA of 256 bits or more, RSA of 2048 or more, or Ed25519", err)
	}
	if err := p.handshake(served, &tls.Config{}); err != nil {
		return nil, fmt.Errorf("--tls-curves: no client can connect with %v alone: %w; add another, such as P256, which FIPS 140-3 allows", p.Curves, err)
	}
	if len(p.LeftOut) > 0 {
		warnings = append(warnings, "--tls-cipher-suites: Go does not have "+strings.Join(p.LeftOut, ", ")+": left out")
	}
	old := &tls.Config{MaxVersion: tls.VersionTLS12}
	if p.MinVersion != tls.VersionTLS13 && p.handshake(served, old) != nil {
		missing := "--tls-curves has no group for it, such as P256"
		if (Profile{Suites: p.Suites}).handshake(served, old) != nil {
			missing = "--tls-cipher-suites has none that fits the certificate's key"
		}
		warnings = append(warnings, "no client connects with TLS 1.2: "+missing+"; add one, or refuse TLS 1.2 by --tls-min-version=VersionTLS13")
	}
	return warnings, nil
}

// handshake returns why a client, whomever it trusts, cannot connect to a server with the profile.
func (p Profile) handshake(served *tls.Certificate, client *tls.Config) error {
	far, near := net.Pipe()
	server, ended := eager{far, make(chan []byte, 100)}, make(chan error, 1)
	config := TLSConfig(nil, p)
	config.Certificates = []tls.Certificate{*served}
	go func() {
		ended <- tls.Server(server, config).Handshake()
		close(server.written)
	}()
	go func() {
		for text := range server.written {
			_, _ = far.Write(text)
		}
		_ = far.Close()
	}()
	client.InsecureSkipVerify = true
	err := tls.Client(near, client).Handshake()
	_ = near.Close()
	if refused := <-ended; err != nil {
		return cmp.Or(refused, err)
	}
	return nil
}

// eager is a connection whose writes wait for no reader: both ends of a handshake may write at once, which a pipe does not let them.
type eager struct {
	net.Conn
	written chan []byte
}

func (e eager) Write(b []byte) (int, error) { e.written <- slices.Clone(b); return len(b), nil }
