package rotation

import (
	"crypto/x509"
	"fmt"
	"hash/fnv"
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
	copies := a.copies()
	a.extend()
	a.setAside(copies)
	a.dropEnded()
	a.checkAuthorities()
	a.restore(copies)
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
	a.Retired = slices.DeleteFunc(a.Retired, func(r Retired) bool {
		ended := !r.Cert.IsCA || a.view.Now.After(r.until())
		if ended {
			a.say("the CA %s is no longer trusted: its last certificate has ended", r.serial())
		}
		return ended
	})
}

// until returns until when a retired CA is needed.
func (r Retired) until() time.Time {
	if r.LeavesEnd.IsZero() || r.LeavesEnd.After(r.Cert.NotAfter) {
		return r.Cert.NotAfter
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
		a.Next.LeavesEnd = a.latest() // it has signed nothing, unless the Secret is an old copy
		a.retire(a.Next)
		a.Next = Authority{}
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
	if cert := parse(ca.Cert); cert != nil {
		a.retireUntil(cert, ca.LeavesEnd)
	}
}

func (a *advance) retireUntil(ca *x509.Certificate, end time.Time) {
	if certs.CheckAuthority(ca, a.view.Now) == nil && !slices.ContainsFunc(a.retired(), ca.Equal) {
		a.Retired = append(a.Retired, Retired{Cert: ca, LeavesEnd: end})
	}
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
	return len(a.view.Entries) > 0 && (slices.ContainsFunc(a.view.foreign(), isOther) || a.inUse().Cert != nil)
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
	if a.DistrustCA == "" || !signed(parse(a.Active.Cert), parse(a.Leaf.Cert)) {
		return
	}
	end := a.view.Now.Add(a.Distrust)
	for i, r := range a.Retired {
		if r.serial() == a.DistrustCA && r.until().After(end) {
			a.Retired[i].LeavesEnd = end
		}
	}
}
