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

// authorities are the CAs of a file, and the verdicts on chains that were sent.
type authorities struct {
	roots []*x509.Certificate

	mu       sync.RWMutex
	verdicts map[[sha256.Size]byte]judged
}

// judged is the verdict on a chain, and until when it counts.
type judged struct {
	issued bool
	until  time.Time
}

const (
	// maxChain is the maximum number of certificates that a client may send.
	maxChain = 4
	// maxAuthorities is the maximum number of CAs in a file, and maxNamesakes that of those with one subject, all of which may be tried.
	maxAuthorities, maxNamesakes = 32, 4
	// maxRemembered is the number of chains of which the verdict is remembered.
	maxRemembered = 1000
	// refusal is the maximum time for which a chain stays refused: it may be valid later.
	refusal = time.Minute
)

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
	next := newAuthorities()
	for rest := text; len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, poll.Sum{}, fmt.Errorf("--client-ca: %s: must contain CA certificates in PEM, and nothing else", c.file)
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, poll.Sum{}, fmt.Errorf("--client-ca: %s: certificate %d cannot be read: %w", c.file, len(next.roots)+1, err)
		}
		if !slices.ContainsFunc(next.roots, ca.Equal) {
			next.roots = append(next.roots, ca)
		}
		if len(next.roots) > maxAuthorities {
			return nil, poll.Sum{}, fmt.Errorf("--client-ca: %s: contains more than %d CAs: remove those that sign no client certificate", c.file,
				maxAuthorities)
		}
		if next.named(ca.RawSubject) > maxNamesakes {
			return nil, poll.Sum{}, fmt.Errorf("--client-ca: %s: contains more than %d CAs with the subject %q: remove those that sign no client certificate",
				c.file, maxNamesakes, ca.Subject)
		}
	}
	if len(next.roots) == 0 {
		return nil, poll.Sum{}, fmt.Errorf("--client-ca: %s contains no certificate", c.file)
	}
	return next, poll.SumOf(text), nil
}

func newAuthorities(roots ...*x509.Certificate) *authorities {
	return &authorities{roots: roots, verdicts: map[[sha256.Size]byte]judged{}}
}

// named returns the number of CAs with a subject.
func (a *authorities) named(subject []byte) (n int) {
	for _, ca := range a.roots {
		if bytes.Equal(ca.RawSubject, subject) {
			n++
		}
	}
	return n
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
	if len(chain) > maxChain {
		return false
	}
	key := sumOf(chain)
	a.mu.RLock()
	known := a.verdicts[key]
	a.mu.RUnlock()
	if !now.Before(known.until) {
		known = a.verify(chain, now)
		a.remember(key, known)
	}
	return known.issued
}

// verify returns the verdict on a chain.
func (a *authorities) verify(chain []*x509.Certificate, now time.Time) judged {
	refused := judged{until: earliestBegin(slices.Concat(chain, a.roots), now, now.Add(refusal))}
	signed := signedBy(a.roots, chain, (*x509.Certificate).CheckSignatureFrom)
	if !slices.ContainsFunc(signed, chain[0].Equal) {
		return refused
	}
	chains, err := chain[0].Verify(x509.VerifyOptions{Roots: pool(a.roots), Intermediates: pool(signed), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return refused
	}
	return judged{true, earliestEnd(chains[0])}
}

// signedBy returns the CAs, and the certificates of a chain that lead to them. It begins at the CAs, so that no signature is
// checked with a key for which only its sender vouches: such keys may be of any kind, and all have one subject.
func signedBy(trusted, chain []*x509.Certificate, check func(c, parent *x509.Certificate) error) []*x509.Certificate {
	trusted = slices.Clone(trusted)
	for grown := true; grown; {
		grown = false
		for _, c := range chain {
			signs := func(parent *x509.Certificate) bool {
				return bytes.Equal(c.RawIssuer, parent.RawSubject) && check(c, parent) == nil
			}
			if !slices.ContainsFunc(trusted, c.Equal) && slices.ContainsFunc(trusted, signs) {
				trusted, grown = append(trusted, c), true
			}
		}
	}
	return trusted
}

func pool(all []*x509.Certificate) *x509.CertPool {
	made := x509.NewCertPool()
	for _, c := range all {
		made.AddCert(c)
	}
	return made
}

func sumOf(chain []*x509.Certificate) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, c := range chain {
		_, _ = h.Write(c.Raw)
	}
	h.Sum(sum[:0])
	return sum
}

func (a *authorities) remember(key [sha256.Size]byte, v judged) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.verdicts) >= maxRemembered {
		clear(a.verdicts)
	}
	a.verdicts[key] = v
}

// earliestBegin returns when the first of some certificates becomes valid that is not so now; at the latest, a given time.
func earliestBegin(all []*x509.Certificate, now, first time.Time) time.Time {
	for _, c := range all {
		if c.NotBefore.After(now) && c.NotBefore.Before(first) {
			first = c.NotBefore
		}
	}
	return first
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
