package rotation

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"usher.dev/usher/certs"
)

// current holds the state that the rest of the program may read.
type current struct {
	leaf    certs.Pair
	serving *tls.Certificate // nil before there is one
	caEnd   time.Time
	known   []byte
	proven  bool // it could once be expected that every API server trusts it
	synced  time.Time
	problem error // of the last look
}

// Serve returns the certificate that a replica should serve, given the stored one: no replica changes from a
// certificate that every API server trusts to a certificate that some do not trust, that lacks its name, or that is older.
func (v View) Serve(stored certs.Pair) certs.Pair {
	switch {
	case bytes.Equal(stored.Cert, v.Served.Cert) || !v.valid(stored):
		return v.Served
	case v.valid(v.Served) && v.named(v.Served) && !v.named(stored):
		return v.Served
	case !v.valid(v.Served) || !v.good(v.Served):
		return stored
	case v.good(stored) && !older(stored, v.Served) && (v.proven(stored) || sameIssuer(stored, v.Served)):
		return stored
	}
	return v.Served
}

// sameIssuer reports whether one CA has signed two leaves: who trusts one of them trusts the other.
func sameIssuer(leaf, other certs.Pair) bool {
	key := parse(leaf.Cert).AuthorityKeyId
	return len(key) > 0 && bytes.Equal(key, parse(other.Cert).AuthorityKeyId)
}

// older reports whether a leaf begins and ends before another: an old copy was put back.
func older(leaf, other certs.Pair) bool {
	a, b := parse(leaf.Cert), parse(other.Cert)
	return a.NotBefore.Before(b.NotBefore) && a.NotAfter.Before(b.NotAfter)
}

// serve changes the served certificate, if the stored one is better.
func (k *Keeper) serve(s State, bundle []byte, v View) {
	next := *k.current.Load()
	leaf := v.Serve(s.Leaf)
	if !bytes.Equal(leaf.Cert, next.leaf.Cert) {
		serving, err := leaf.Serving()
		if err != nil {
			return
		}
		next.leaf, next.serving = leaf, &serving
		k.log.Info(fmt.Sprintf("certificates: serving %s until %s", Serial(leaf.Cert), serving.Leaf.NotAfter.UTC().Format(time.RFC3339)))
	}
	if ca := parse(s.Active.Cert); ca != nil {
		next.caEnd = ca.NotAfter
	}
	next.known = bundle
	next.proven = next.proven || next.serving != nil && v.proven(leaf)
	k.current.Store(&next)
}

// GetCertificate returns the certificate to serve; it is the GetCertificate of a tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if now := k.current.Load(); now.serving != nil {
		return now.serving, nil
	}
	return nil, errors.New("there is no certificate yet: /readyz says why")
}

// Ready returns why reviews cannot be served: before the first certificate that every caBundle trusts, and from shortly before
// its end. A caBundle damaged later does not count: it would only add a second fault.
func (k *Keeper) Ready() error {
	now := k.current.Load()
	switch {
	case now.serving == nil && now.problem != nil:
		return now.problem
	case now.serving == nil:
		return errors.New("no certificate can be served yet")
	case !now.proven:
		return errors.Join(fmt.Errorf("the registered webhooks do not trust the certificate yet, or for less than %s", k.pace.Settle), now.problem)
	}
	at := k.client.Now()
	return cmp.Or(certs.CheckDates(now.serving.Leaf, at), certs.CheckDates(now.serving.Leaf, at.Add(clockError)))
}

// clockError is how far the API server's clock may be ahead of the replica's reading of it: an answer gives the second in which it
// was made, and arrives later.
const clockError = 2 * time.Second

// Ends returns when the served certificate and the CA end; zero if there is none.
func (k *Keeper) Ends() (leaf, ca time.Time) {
	now := k.current.Load()
	if now.serving != nil {
		leaf = now.serving.Leaf.NotAfter
	}
	return leaf, now.caEnd
}

// Synced returns when everything was last read and written without an error; zero if never.
func (k *Keeper) Synced() time.Time { return k.current.Load().synced }

// Writes returns how often caBundles were written.
func (k *Keeper) Writes() uint64 { return k.writes.Load() }
