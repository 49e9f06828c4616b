package callers

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"sync"
	"time"

	"usher.dev/usher/internal/poll"
)

// maxFile is the maximum size of a file of CAs or tokens in bytes, as of a Secret.
const maxFile = 1 << 20

// Certificates are the client certificates of the CAs in a file. A certificate is checked with each request, and not
// only in the handshake, so that a CA that was removed, or a certificate that has expired, is noticed also on open
// connections and on resumed sessions.
type Certificates struct {
	file    string
	names   []string // none: all
	current *poll.Current[authorities]
}

// authorities are the CAs of a file, and the certificates that were found to be theirs.
type authorities struct {
	roots *x509.CertPool

	mu    sync.RWMutex
	valid map[[sha256.Size]byte]time.Time // until when
}

// maxValid is the number of certificates that are remembered as valid.
const maxValid = 1000

// OpenCertificates reads the CAs of a PEM file. If names are given, a certificate must have one of them as its common
// name or as a subject alternative name.
func OpenCertificates(file string, names []string) (c *Certificates, err error) {
	c = &Certificates{file: file, names: names}
	c.current, err = poll.Open(c.read)
	return c, err
}

func (c *Certificates) read() (*authorities, poll.Sum, error) {
	text, err := poll.ReadFile(c.file, maxFile)
	if err != nil {
		return nil, poll.Sum{}, fmt.Errorf("--client-ca: %w", err)
	}
	next := &authorities{roots: x509.NewCertPool(), valid: map[[sha256.Size]byte]time.Time{}}
	found := 0
	for rest := text; len(bytes.TrimSpace(rest)) > 0; found++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, poll.Sum{}, fmt.Errorf("--client-ca: %s: must contain CA certificates in PEM, and nothing else", c.file)
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, poll.Sum{}, fmt.Errorf("--client-ca: %s: certificate %d cannot be read: %w", c.file, found+1, err)
		}
		next.roots.AddCert(ca)
	}
	if found == 0 {
		return nil, poll.Sum{}, fmt.Errorf("--client-ca: %s contains no certificate", c.file)
	}
	return next, poll.SumOf(text), nil
}

// check checks a chain of certificates whose key the handshake has proven.
func (c *Certificates) check(chain []*x509.Certificate, now time.Time) Result {
	leaf := chain[0]
	if !c.current.Load().issued(chain, now) {
		return WrongCertificate
	}
	if len(c.names) > 0 && !slices.ContainsFunc(namesOf(leaf), func(name string) bool { return slices.Contains(c.names, name) }) {
		return WrongName
	}
	return Known
}

// issued reports whether a chain is valid now for a client, and leads to one of the CAs.
func (a *authorities) issued(chain []*x509.Certificate, now time.Time) bool {
	key := sha256.Sum256(chain[0].Raw)
	a.mu.RLock()
	until, found := a.valid[key]
	a.mu.RUnlock()
	if found && now.Before(until) {
		return true
	}
	options := x509.VerifyOptions{Roots: a.roots, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	chains, err := chain[0].Verify(options)
	if err != nil {
		return false
	}
	a.remember(key, earliestEnd(chains[0]))
	return true
}

func (a *authorities) remember(key [sha256.Size]byte, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.valid) >= maxValid {
		clear(a.valid)
	}
	a.valid[key] = until
}

func earliestEnd(chain []*x509.Certificate) time.Time {
	first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	return first.NotAfter
}

// namesOf returns the common name and all subject alternative names.
func namesOf(c *x509.Certificate) []string {
	names := slices.Concat([]string{c.Subject.CommonName}, c.DNSNames, c.EmailAddresses)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	return names
}
