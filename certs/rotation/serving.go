package rotation

import (
	"bytes"
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
	proven  bool // it was once trusted by every caBundle, and had the name of the Service
	synced  time.Time
	problem error // of the last look
}

// Serve returns the certificate that a replica should serve, given the stored one: no replica changes from a
// certificate that every API server trusts to a certificate that some do not trust, or that lacks its name.
func (v View) Serve(stored certs.Pair) certs.Pair {
	switch {
	case !v.valid(stored) || bytes.Equal(stored.Cert, v.Served.Cert):
		return v.Served
	case v.valid(v.Served) && v.named(v.Served) && !v.named(stored):
		return v.Served
	case !v.valid(v.Served) || v.good(stored) || !v.good(v.Served):
		return stored
	}
	return v.Served
}

// serve changes the served certificate, if the stored one is better.
func (k *Keeper) serve(s State, v View) {
	next := *k.current.Load()
	leaf := v.Serve(s.Leaf)
	if Serial(leaf.Cert) != Serial(next.leaf.Cert) {
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
	next.known = Bundle(s)
	next.proven = next.proven || next.serving != nil && v.good(leaf) && v.named(leaf)
	k.current.Store(&next)
}

// GetCertificate returns the certificate to serve; it is the GetCertificate of a tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if now := k.current.Load(); now.serving != nil {
		return now.serving, nil
	}
	return nil, errors.New("there is no certificate yet: /readyz says why")
}

// Ready returns why reviews cannot be served: before the first certificate that every caBundle trusts, and after it has
// ended. A caBundle damaged later does not count: it would only add a second fault.
func (k *Keeper) Ready() error {
	now := k.current.Load()
	switch {
	case now.serving == nil && now.problem != nil:
		return now.problem
	case now.serving == nil:
		return errors.New("no certificate can be served yet")
	case !now.proven:
		return errors.Join(errors.New("the registered webhooks do not trust the certificate yet"), now.problem)
	}
	return certs.CheckDates(now.serving.Leaf, k.client.Now())
}

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
