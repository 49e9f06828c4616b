// Package certs makes, stores and serves the certificates of the webhook: a private CA that the API server trusts
// through caBundle, and a serving certificate signed by it for the names of the Service.
//
//	authority.go  make a CA, issue a serving certificate
//	names.go      the names in a serving certificate
//	files.go      write them to a directory; keep a set on a laptop
//	secret.go     the serving certificate as a Secret manifest
//	source.go     serve the certificate in a directory, and reload it when it is renewed
package certs

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// skew is the most that a certificate is backdated, for clients whose clock is slow.
	skew = 5 * time.Minute
	// maxCommonName is the maximum length of a CN in characters: ub-common-name of RFC 5280, appendix A.1.
	maxCommonName = 64
	// authorityName is the common name of the CAs of NewAuthority.
	authorityName = "usher CA"
)

// Pair is a certificate and its private key, both PEM. Cert may hold a chain, with the certificate of Key first.
type Pair struct {
	Cert, Key []byte
}

// Leaf returns the first certificate of the pair, to which Key belongs. It fails if Cert is not PEM or contains an
// invalid certificate. It also refuses a truncated block, which the PEM decoder silently skips: a chain without its
// intermediate would load, but no client could verify it. It checks neither Key nor the dates.
func (p Pair) Leaf() (leaf *x509.Certificate, err error) {
	blocks := 0
	for block, rest := pem.Decode(p.Cert); block != nil; block, rest = pem.Decode(rest) {
		blocks++
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("damaged certificate: %w", err)
		}
		leaf = cmp.Or(leaf, cert)
	}
	if begun := strings.Count(string(p.Cert), "-----BEGIN "); begun > blocks {
		return nil, fmt.Errorf("%d of %d PEM blocks are cut off or damaged, as in a half-written file", begun-blocks, begun)
	}
	if leaf == nil {
		return nil, errors.New("holds no certificate: expected PEM with a block `-----BEGIN CERTIFICATE-----`")
	}
	return leaf, nil
}

// Serving parses the pair, and checks that certificate and key match, but not the dates.
func (p Pair) Serving() (tls.Certificate, error) { return p.load("the certificate", "the key") }

// load parses the pair and checks that certificate and key match. The names are used in errors.
func (p Pair) load(certName, keyName string) (tls.Certificate, error) {
	leaf, err := p.Leaf()
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", certName, err)
	}
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w: it has to hold the private key of %s, as PEM without a password",
			keyName, err, certName)
	}
	cert.Leaf = leaf // X509KeyPair leaves it out under GODEBUG=x509keypairleaf=0
	if cert.Certificate, err = distinct(cert.Certificate); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", certName, err)
	}
	return cert, nil
}

// maxChain and maxChainSize bound the certificates that a server sends, and their bytes: clients with GnuTLS accept no more of them,
// and older ones in Go no larger message.
const maxChain, maxChainSize = 16, 60 << 10

// distinct returns the certificates of a chain without copies, if clients accept them.
func distinct(chain [][]byte) (once [][]byte, err error) {
	size := 0
	for _, der := range chain {
		if slices.ContainsFunc(once, func(other []byte) bool { return bytes.Equal(der, other) }) {
			continue
		}
		once, size = append(once, der), size+len(der)
		if len(once) > maxChain || size > maxChainSize {
			return nil, fmt.Errorf("holds more certificates than clients accept, which is %d of %d KiB in all: it needs the serving certificate "+
				"and the intermediates up to the CA, and no others", maxChain, maxChainSize>>10)
		}
	}
	return once, nil
}

// NewAuthority is NewAuthorityUntil for one year.
func NewAuthority(now time.Time) (Pair, error) { return NewAuthorityUntil(now, now.AddDate(1, 0, 0)) }

// NewAuthorityUntil makes a CA that is valid from now (less a few minutes): ECDSA P-256, self-signed, for signing
// serving certificates only, not other CAs. Its subject differs from the subjects of all certificates it issues: with
// equal subjects OpenSSL takes a leaf for self-signed and refuses the chain. Two CAs differ in their key identifiers,
// so an old and a new one can be in one bundle.
func NewAuthorityUntil(now, until time.Time) (Pair, error) {
	return makePair(func(key *ecdsa.PrivateKey) ([]byte, error) { return selfSign(key, now, until) })
}

// Issue signs a serving certificate for names, which are DNS names and IP addresses, with the CA: ECDSA P-256, valid
// from now (less a few minutes) for one year, but not longer than the CA. All names are subject alternative names, the
// only ones that Go and RFC 6125 check; the first is also the common name, for human readers. It fails if ca is not a
// currently valid CA, or if a name is neither a DNS name nor an IP address.
func Issue(ca Pair, names []string, now time.Time) (Pair, error) {
	return IssueUntil(ca, names, now, now.AddDate(1, 0, 0))
}

// IssueUntil is Issue with another end than one year from now.
func IssueUntil(ca Pair, names []string, now, until time.Time) (Pair, error) {
	signer, err := ca.load("the CA certificate", "the CA key")
	if err != nil {
		return Pair{}, err
	}
	if err := CheckAuthority(signer.Leaf, now); err != nil {
		return Pair{}, err
	}
	template, err := servingTemplate(names)
	if err != nil {
		return Pair{}, err
	}
	template.NotBefore, template.NotAfter = backdated(now, until), until
	if template.NotAfter.After(signer.Leaf.NotAfter) {
		template.NotAfter = signer.Leaf.NotAfter
	}
	return makePair(func(key *ecdsa.PrivateKey) ([]byte, error) {
		return sign(template, signer.Leaf, key.Public(), signer.PrivateKey)
	})
}

// backdated returns the beginning of a certificate that is made now: a little earlier, compared with its lifetime.
func backdated(now, until time.Time) time.Time { return now.Add(-min(skew, until.Sub(now)/10)) }

// MadeAt returns when a CA was made, if it is from NewAuthority, which dates it back. Others are taken to begin when they are made.
func MadeAt(ca *x509.Certificate) time.Time {
	if ca.Subject.CommonName != authorityName {
		return ca.NotBefore
	}
	return ca.NotBefore.Add(min(skew, ca.NotAfter.Sub(ca.NotBefore)/11)) // a tenth of what was left of its life
}

func servingTemplate(names []string) (*x509.Certificate, error) {
	dns, ips, err := splitNames(names)
	if err != nil {
		return nil, err
	}
	// Without an organization, the subject would be empty when the first name is too long for a common name.
	subject := pkix.Name{Organization: []string{"usher"}}
	if len(names[0]) <= maxCommonName {
		subject.CommonName = names[0]
	}
	return &x509.Certificate{Subject: subject, DNSNames: dns, IPAddresses: ips, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, nil
}

// makePair makes a key, and returns it with the certificate that certify makes for it.
func makePair(certify func(*ecdsa.PrivateKey) ([]byte, error)) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	cert, err := certify(key)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode a key: %w", err)
	}
	return Pair{Cert: cert, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, nil
}

// selfSign makes a CA certificate for key. Certificates for the same key are interchangeable: a certificate issued
// under one verifies under the other.
func selfSign(key *ecdsa.PrivateKey, now, until time.Time) ([]byte, error) {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: authorityName, Organization: []string{"usher"}},
		NotBefore: backdated(now, until), NotAfter: until, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true}
	return sign(template, template, key.Public(), key)
}

// sign returns the certificate as PEM. CreateCertificate draws the random serial number (159 bits, RFC 5280, 4.1.2.2).
func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %s: %w", template.Subject, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// CheckDates returns an error if cert is not valid at now. The error does not contain the current time, so that it is
// the same at each poll.
func CheckDates(cert *x509.Certificate, now time.Time) error {
	if now.After(cert.NotAfter) {
		return fmt.Errorf("expired on %s: renew it", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if now.Before(cert.NotBefore) {
		return fmt.Errorf("is not valid before %s: check the clock of this machine, or wait",
			cert.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// CheckAuthority returns an error if cert is not a CA, or not valid at now.
func CheckAuthority(cert *x509.Certificate, now time.Time) error {
	maySign := cert.KeyUsage == 0 || cert.KeyUsage&x509.KeyUsageCertSign != 0 // zero means any usage
	if !cert.IsCA || !maySign {
		return fmt.Errorf("the certificate of %s is not a CA: it may not sign others", cert.Subject)
	}
	if err := CheckDates(cert, now); err != nil {
		return fmt.Errorf("the CA certificate %w", err)
	}
	return nil
}
