package rotation

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"slices"
	"time"

	"usher.dev/usher/certs"
)

// View describes the cluster as a replica sees it.
type View struct {
	Now     time.Time  // by the clock of the API server
	Name    string     // by which API servers call the replica; empty: by any
	Entries [][]byte   // the caBundles of the registered webhooks that call this Service, each once
	Served  certs.Pair // what the replica serves; none at its start
	Known   []byte     // certificates of the CAs that it knew after its last look

	// Settled reports whether every caBundle has contained a CA for so long that every API server uses it.
	Settled func(*x509.Certificate) bool
}

// valid reports whether a leaf can be served at all: certificate and key match, and it is valid now.
func (v View) valid(leaf certs.Pair) bool {
	cert, err := leaf.Serving()
	return err == nil && certs.CheckDates(cert.Leaf, v.Now) == nil
}

// good reports whether a leaf is valid, and verifies under the caBundle of every entry.
func (v View) good(leaf certs.Pair) bool { return v.valid(leaf) && v.trusted(parse(leaf.Cert)) }

// trusted reports whether a leaf verifies under the caBundle of every entry.
func (v View) trusted(leaf *x509.Certificate) bool {
	return !slices.ContainsFunc(v.Entries, func(bundle []byte) bool { return !verifies(leaf, bundle, v.Now) })
}

// proven reports whether every API server can be expected to trust a leaf. If the caBundles name several CAs, they may just have been
// changed, and an API server that has not heard of it trusts another one: a replica that starts beside an old copy of the Secrets finds an
// old leaf there. With a single CA, nothing else could be served.
func (v View) proven(leaf certs.Pair) bool {
	if !v.good(leaf) || !v.named(leaf) {
		return false
	}
	return len(count(v.Entries)) < 2 || slices.ContainsFunc(parseAll(v.Entries[0]), func(ca *x509.Certificate) bool {
		return v.Settled(ca) && verifies(parse(leaf.Cert), encode(certList{ca}), v.Now)
	})
}

// named reports whether a leaf has the name by which API servers call the replica. Replicas of another Service in the same
// namespace share the Secrets.
func (v View) named(leaf certs.Pair) bool {
	cert := parse(leaf.Cert)
	return v.Name == "" || cert != nil && cert.VerifyHostname(v.Name) == nil
}

// foreign returns the valid CAs in the caBundles, each once, the newest first.
func (v View) foreign() (all []*x509.Certificate) {
	for _, bundle := range v.Entries {
		all = append(all, v.authorities(bundle)...)
	}
	slices.SortFunc(all, func(a, b *x509.Certificate) int {
		return cmp.Or(b.NotBefore.Compare(a.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	return slices.CompactFunc(all, (*x509.Certificate).Equal)
}

// authorities returns the valid CAs in text.
func (v View) authorities(text []byte) []*x509.Certificate {
	return slices.DeleteFunc(parseAll(text), func(cert *x509.Certificate) bool { return certs.CheckAuthority(cert, v.Now) != nil })
}

// verifies reports whether an API server with this caBundle trusts the leaf. All CAs have one name: the one whose key the leaf
// names is tried first.
func verifies(leaf *x509.Certificate, bundle []byte, now time.Time) bool {
	all := parseAll(bundle)
	if i := slices.IndexFunc(all, func(ca *x509.Certificate) bool { return sameKey(ca, leaf) }); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return slices.ContainsFunc(all, func(ca *x509.Certificate) bool {
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
		return err == nil
	})
}

// signed reports whether a CA has signed a leaf.
func signed(ca, leaf *x509.Certificate) bool {
	return ca != nil && leaf != nil && leaf.CheckSignatureFrom(ca) == nil
}
