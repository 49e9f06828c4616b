package rotation

import (
	"crypto/x509"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"usher.dev/usher/certs"
)

// Plan says for whom certificates are, and for how long.
type Plan struct {
	Names            []string // of the Service, and others that the leaf covers
	CALife, LeafLife time.Duration
	Distrust         time.Duration // how long replicas need to change to a new leaf: until then a distrusted CA is trusted
}

// maxRetired bounds the CAs that are taken over from caBundles, which others may have written. The newest are preferred: one of
// them signs now, and usher itself has as many only if its CA is replaced every day.
const maxRetired = 32

// Advance returns what the Secrets should hold next, and says what is new, a sentence each. It changes nothing that is
// good. It fails only if a name is invalid, or if there is no randomness.
func (p Plan) Advance(s State, v View) (State, []string, error) {
	a := &advance{Plan: p, State: s, view: v}
	a.Retired = slices.Clone(s.Retired)
	a.dropEnded()
	a.checkAuthorities()
	a.restore()
	for _, rule := range []func() error{a.announce, a.promote, a.issue} {
		if err := rule(); err != nil {
			return s, nil, err
		}
	}
	a.distrust()
	a.Bundle = Bundle(a.State)
	return a.State, a.events, nil
}

// unstored returns what to go by while next, which follows from is, could not be stored: the caBundles are made from what is
// stored, and from the CAs that have to stay trusted. Those may be lost from what is stored.
func unstored(is, next State) State {
	is.Retired = next.Retired
	return is
}

// advance is a step under way.
type advance struct {
	Plan
	State
	view   View
	events []string
}

func (a *advance) say(format string, args ...any) {
	a.events = append(a.events, fmt.Sprintf(format, args...))
}

// dropEnded forgets retired CAs whose last leaf has ended.
func (a *advance) dropEnded() {
	a.Retired = slices.DeleteFunc(a.Retired, func(r Authority) bool {
		cert := parse(r.Cert)
		ended := cert == nil || !cert.IsCA || a.view.Now.After(r.until())
		if ended && cert != nil {
			a.say("the CA %s is no longer trusted: its last certificate has ended", Serial(r.Cert))
		}
		return ended
	})
}

// until returns until when a retired CA is needed.
func (r Authority) until() time.Time {
	if cert := parse(r.Cert); r.LeavesEnd.IsZero() || r.LeavesEnd.After(cert.NotAfter) {
		return cert.NotAfter
	}
	return r.LeavesEnd
}

// checkAuthorities sets aside a CA that cannot sign, and the CAs of unknown keys that are in use if there is none.
func (a *advance) checkAuthorities() {
	if err := a.fault(a.Active); err != nil {
		a.say("the CA %s can no longer sign: %v", Serial(a.Active.Cert), err)
		a.retire(a.Active)
		a.Active = Authority{}
	}
	if err := a.fault(a.Next); err != nil || a.Next.Cert != nil && a.due(parse(a.Next.Cert)) {
		a.Next = Authority{} // it has signed nothing
	}
	if a.Active.Cert == nil && a.Next.Cert == nil {
		a.takeOver()
	}
}

// fault returns why a CA cannot sign, or nil.
func (a *advance) fault(ca Authority) error {
	if ca.Cert == nil && ca.Key == nil {
		return nil
	}
	pair, err := ca.Serving()
	if err != nil {
		return err
	}
	return certs.CheckAuthority(pair.Leaf, a.view.Now)
}

// retire keeps the certificate of a CA for as long as it is needed.
func (a *advance) retire(ca Authority) {
	cert := parse(ca.Cert)
	if cert == nil || certs.CheckAuthority(cert, a.view.Now) != nil {
		return
	}
	isSame := func(r Authority) bool { return parse(r.Cert).Equal(cert) }
	if !slices.ContainsFunc(a.Retired, isSame) {
		a.Retired = append(a.Retired, Authority{Pair: certs.Pair{Cert: encode(certList{cert})}, LeavesEnd: ca.LeavesEnd})
	}
}

// restore retires the CAs that the Secret lost, with the certificates from wherever there is a copy, for as long as a leaf of
// theirs may be served by any replica. If it is lost for how long, that is the lifetime of a leaf.
func (a *advance) restore() {
	known, latest := a.Lost != nil, a.view.Now.Add(a.LeafLife)
	a.Lost = maps.Clone(a.Lost)
	if !known {
		for _, leaf := range []certs.Pair{a.Leaf, a.view.Served} {
			if cert := parse(leaf.Cert); cert != nil {
				latest = later(latest, cert.NotAfter)
			}
		}
		a.Lost = map[string]time.Time{}
		if a.Active.Cert != nil {
			a.Active.LeavesEnd = latest
		}
		for i, r := range a.Retired {
			if r.LeavesEnd.IsZero() {
				a.Retired[i].LeavesEnd = latest
			}
		}
	}
	maps.DeleteFunc(a.Lost, func(_ string, end time.Time) bool { return a.view.Now.After(end) })
	if known && len(a.Lost) == 0 {
		return
	}
	trusted := a.view.foreign()
	for _, ca := range slices.Concat(a.view.authorities(a.Bundle), a.view.authorities(a.view.Known), trusted[:min(len(trusted), maxRetired)]) {
		serial := ca.SerialNumber.Text(16)
		until, lost := a.Lost[serial]
		switch {
		case serial == Serial(a.Active.Cert) || serial == Serial(a.Next.Cert):
		case lost:
			a.retireUntil(ca, until)
			a.say("the CA %s stays trusted: its certificate was lost, and taken from a copy", serial)
		case !known:
			a.retireUntil(ca, latest)
		}
		delete(a.Lost, serial)
	}
}

// takeOver retires the CAs that signed the known leaves, or all trusted CAs if no leaf is known.
func (a *advance) takeOver() {
	trusted := a.view.foreign()
	found, known := slices.Concat(trusted, a.view.authorities(a.Bundle), a.view.authorities(a.view.Known)), false
	for _, leaf := range []certs.Pair{a.Leaf, a.view.Served} {
		for _, ca := range found {
			if cert := parse(leaf.Cert); a.view.valid(leaf) && signed(ca, cert) {
				known = true
				a.retireUntil(ca, later(cert.NotAfter, a.view.Now.Add(a.LeafLife)))
			}
		}
	}
	for _, ca := range trusted[:min(len(trusted), maxRetired)] {
		if !known {
			a.retireUntil(ca, ca.NotAfter)
		}
	}
}

func (a *advance) retireUntil(ca *x509.Certificate, end time.Time) {
	a.retire(Authority{Pair: certs.Pair{Cert: encode(certList{ca})}, LeavesEnd: end})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// announce makes a new CA if there is none, or if the active one is due or to be replaced.
func (a *advance) announce() (err error) {
	why := ""
	switch active := parse(a.Active.Cert); {
	case a.Next.Cert != nil:
		return nil
	case active == nil:
		why = "there is no CA that can sign"
	case a.due(active):
		why = "the CA is due for renewal"
	case a.ReplaceCA == Serial(a.Active.Cert):
		why = "requested"
	default:
		return nil
	}
	if a.Next.Pair, err = certs.NewAuthorityUntil(a.view.Now, a.view.Now.Add(a.CALife)); err != nil {
		return err
	}
	a.say("made the CA %s (%s)", Serial(a.Next.Cert), why)
	return nil
}

// promote lets the announced CA sign when it is trusted everywhere, or if nothing depends on another one.
func (a *advance) promote() error {
	next := parse(a.Next.Cert)
	if next == nil || !a.view.Settled(next) && (a.Active.Cert != nil || a.depended(next)) {
		return nil
	}
	a.retire(a.Active)
	a.Active, a.Next = a.Next, Authority{}
	a.say("the CA %s signs from now on", Serial(a.Active.Cert))
	return nil
}

// depended reports whether requests may depend on a leaf of another CA, be it a known leaf or one served by others.
func (a *advance) depended(next *x509.Certificate) bool {
	isOther := func(ca *x509.Certificate) bool { return !ca.Equal(next) }
	return len(a.view.Entries) > 0 && (a.inUse().Cert != nil || slices.ContainsFunc(a.view.foreign(), isOther))
}

// due reports whether two thirds of a certificate's life are over, or up to a twentieth less: not all clusters that were
// made together renew together.
func (a *advance) due(cert *x509.Certificate) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, a.Names, cert.NotAfter.Unix())
	early := life / 20 / 1000 * time.Duration(h.Sum32()%1000)
	return a.view.Now.After(cert.NotBefore.Add(life/3*2 - early))
}

// distrust ends the time of a retired CA as soon as all replicas can serve the new leaf.
func (a *advance) distrust() {
	if !signed(parse(a.Active.Cert), parse(a.Leaf.Cert)) {
		return
	}
	end := a.view.Now.Add(a.Distrust)
	for i, r := range a.Retired {
		if a.DistrustCA != "" && Serial(r.Cert) == a.DistrustCA && r.until().After(end) {
			a.Retired[i].LeavesEnd = end
		}
	}
}
