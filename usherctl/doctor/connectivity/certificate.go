package connectivity

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"usher.dev/usher/usherctl/report"
)

// soon is the time before its end from which a certificate is reported, unless it is short-lived.
const soon = 14 * 24 * time.Hour

// serving is a certificate that a server has, with what it sends beside it.
type serving struct {
	chain []*x509.Certificate
	from  string // where it was seen
}

// certificateProblems returns what a client finds that trusts a caBundle and calls a server by a name.
func certificateProblems(about Subject, roots bundle, s serving, now time.Time) (all []*Problem) {
	t := about.Target
	leaf := s.chain[0]
	add := func(p *Problem) { all = append(all, p) }
	switch {
	case now.After(leaf.NotAfter):
		add(problem("certificate-expired", about, "the certificate of %s (%s) has expired on %s; by the clock of the API server "+
			"it is %s.", t, s.from, day(leaf.NotAfter), day(now)))
	case now.Before(leaf.NotBefore):
		add(problem("certificate-not-yet-valid", about, "the certificate of %s (%s) is not valid before %s; by the clock of the API "+
			"server it is %s. Wait, or correct the clock of the machine that has made it.", t, s.from, minute(leaf.NotBefore), minute(now)))
	case endsSoon(leaf, now):
		add(problem("certificate-expires-soon", about, "the certificate of %s (%s) expires on %s, in %s, and has not been renewed.",
			t, s.from, minute(leaf.NotAfter), left(leaf, now)).as(report.Warning))
	}
	inTime := !now.After(leaf.NotAfter) && !now.Before(leaf.NotBefore)
	if leaf.VerifyHostname(t.name()) != nil {
		add(nameProblem(about, leaf, s))
	}
	if usages := leaf.ExtKeyUsage; len(usages) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) && !slices.Contains(usages,
		x509.ExtKeyUsageAny) {
		add(problem("certificate-usage", about, "the certificate of %s (%s) is not for servers: its extended key usage lacks server "+
			"authentication.",
			t, s.from))
	}
	switch {
	case roots.empty:
		return append(all, publicProblems(about, s, now)...)
	case len(roots.certificates) == 0, !inTime && signer(roots, s) != nil: // it is the leaf that is not valid
		return all
	}
	return append(all, trustProblems(about, roots, s, now)...)
}

func nameProblem(about Subject, leaf *x509.Certificate, s serving) *Problem {
	t := about.Target
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return problem("certificate-common-name-only", about, "the certificate of %s (%s) has no subject alternative name, only the common "+
			"name %s, which is ignored. Issue it with the DNS name %s.", t, s.from, leaf.Subject.CommonName, t.name())
	}
	return problem("certificate-name", about, "the certificate of %s (%s) is valid for %s, not for %s. Issue it with that DNS name.",
		t, s.from, report.List(names), t.name())
}

// publicProblems returns the finding for a certificate that is called by a URL, without a caBundle, and that the CAs of this machine do not
// verify. Those of the machine of the API server may be others.
func publicProblems(about Subject, s serving, now time.Time) []*Problem {
	t := about.Target
	err := verify(s.chain, x509.VerifyOptions{CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); t.URL == "" || !unknown {
		return nil
	}
	return []*Problem{problem("ca-bundle-missing", about,
		"clientConfig.caBundle is empty, so the API server uses the CAs of its own machine; those of this one do not verify the "+
			"certificate of %s (%s), which is issued by %s. Unless the machines of all API servers trust that CA, each call fails.", t, s.from,
		issuer(s.chain))}
}

// trustProblems reports whether the certificates in a caBundle verify a server's certificate, and for how long.
func trustProblems(about Subject, roots bundle, s serving, now time.Time) []*Problem {
	root := verifier(roots, s, now)
	if root == nil {
		return []*Problem{untrusted(about, roots, s, now)}
	}
	if endsSoon(root, now) && !now.After(s.chain[0].NotAfter) {
		return []*Problem{problem("ca-expires-soon", about, "the CA %s in clientConfig.caBundle expires on %s, in %s.",
			subjectOf(root), minute(root.NotAfter), left(root, now)).as(report.Warning)}
	}
	return staleProblems(about, roots, now)
}

// staleProblems returns the finding for certificates of a caBundle that are of no use any more.
func staleProblems(about Subject, roots bundle, now time.Time) []*Problem {
	var stale []string
	for _, c := range roots.certificates {
		if now.After(c.NotAfter) {
			stale = append(stale, subjectOf(c)+", until "+day(c.NotAfter))
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return []*Problem{problem("ca-bundle-stale", about, "clientConfig.caBundle also holds what has expired: %s. It does no "+
		"harm.", report.List(stale)).as(report.Info)}
}

// verifier returns the certificate of a bundle that verifies what a server sends at some time, or nil.
func verifier(roots bundle, s serving, at time.Time) *x509.Certificate {
	for _, root := range roots.certificates {
		pool := x509.NewCertPool()
		pool.AddCert(root)
		if verify(s.chain, x509.VerifyOptions{Roots: pool, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}) == nil {
			return root
		}
	}
	return nil
}

// verify verifies what a server sends: its certificate, by way of the others.
func verify(chain []*x509.Certificate, o x509.VerifyOptions) error {
	o.Intermediates = x509.NewCertPool()
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(o)
	return err
}

// untrusted returns why the certificates in a caBundle do not verify a server's certificate.
func untrusted(about Subject, roots bundle, s serving, now time.Time) *Problem {
	t := about.Target
	root := signer(roots, s)
	if root == nil {
		return problem("ca-bundle-mismatch", about, "clientConfig.caBundle does not verify the certificate of %s (%s): that is "+
			"issued by %s, and the caBundle holds %s. %s",
			t, s.from, issuer(s.chain), report.List(subjects(roots.certificates)), whyUnsigned(roots, s.chain[len(s.chain)-1]))
	}
	for _, c := range append(slices.Clone(s.chain[1:]), root) {
		if now.After(c.NotAfter) {
			return problem("ca-expired", about, "the CA %s, on which the certificate of %s (%s) depends, has expired on %s. Make a "+
				"new CA, and certificates by it.", subjectOf(c), t, s.from, day(c.NotAfter))
		}
		if now.Before(c.NotBefore) {
			about.OfCA = true
			return problem("certificate-not-yet-valid", about, "the CA %s, on which the certificate of %s (%s) depends, is not valid "+
				"before %s; by the clock of the API server it is %s.", subjectOf(c), t, s.from, minute(c.NotBefore), minute(now))
		}
	}
	return problem("ca-bundle-mismatch", about, "the CA %s in clientConfig.caBundle has issued the certificate of %s (%s), and "+
		"may not, as its constraints say.", subjectOf(root), t, s.from)
}

// whyUnsigned returns why no certificate of a bundle counts as having signed the last one that a server sends.
func whyUnsigned(roots bundle, last *x509.Certificate) string {
	named := bytes.Equal(last.RawIssuer, last.RawSubject)
	for _, root := range roots.certificates {
		if root.CheckSignature(last.SignatureAlgorithm, last.RawTBSCertificate, last.Signature) == nil {
			return fmt.Sprintf("%s has signed it, and is no CA by its own constraints: make it again with basicConstraints CA:TRUE, and keyUsage "+
				"certificate signing.", subjectOf(root))
		}
		named = named || bytes.Equal(last.RawIssuer, root.RawSubject)
	}
	if !named {
		return "If its issuer is an intermediate CA, the server must send that certificate, too: its tls.crt holds the whole chain. Else the " +
			"caBundle is the CA of another certificate."
	}
	return "It is the CA of another certificate, or of an older one."
}

// signer returns the certificate of a bundle that has signed what a server sends, valid or not, or nil.
func signer(roots bundle, s serving) *x509.Certificate {
	for i, c := range s.chain {
		for _, root := range roots.certificates {
			if c.Equal(root) || c.CheckSignatureFrom(root) == nil {
				return root
			}
		}
		if i+1 < len(s.chain) && c.CheckSignatureFrom(s.chain[i+1]) != nil {
			return nil
		}
	}
	return nil
}

func endsSoon(c *x509.Certificate, now time.Time) bool {
	left := c.NotAfter.Sub(now)
	return left < soon && left < c.NotAfter.Sub(c.NotBefore)/3
}

// left returns the time until a certificate expires, in the largest unit of which there are two.
func left(c *x509.Certificate, now time.Time) string {
	switch d := c.NotAfter.Sub(now); {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	default:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	}
}

func day(t time.Time) string    { return t.UTC().Format("2 Jan 2006") }
func minute(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04 UTC") }

func subjectOf(c *x509.Certificate) string {
	if name := c.Subject.String(); name != "" {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("no. %x", c.SerialNumber)
}

func issuer(chain []*x509.Certificate) string {
	last := chain[len(chain)-1]
	if last.Issuer.String() == last.Subject.String() {
		return "itself, " + subjectOf(last)
	}
	return fmt.Sprintf("%q", last.Issuer.String())
}

func subjects(all []*x509.Certificate) (names []string) {
	for _, c := range all {
		names = append(names, fmt.Sprintf("%s (since %s)", subjectOf(c), day(c.NotBefore)))
	}
	return names
}
