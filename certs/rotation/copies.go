package rotation

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"time"

	"usher.dev/usher/certs"
)

// copies returns the CAs that stand beside the leaf, in memory and in the caBundles, or none if the Secret has the same; also those
// that stand behind the CA that signs.
func (a *advance) copies() certList {
	mine := Bundle(a.State)
	differs := func(text []byte) bool { return !bytes.Equal(text, mine) }
	if !differs(a.Bundle) && !differs(a.view.Known) && !slices.ContainsFunc(a.view.Entries, differs) {
		return nil
	}
	all := slices.Concat(a.view.authorities(a.Active.Cert), a.view.authorities(a.Bundle), a.view.authorities(a.view.Known))
	for i, ca := range a.view.foreign() {
		if i < maxRetired || a.signedKnown(ca) {
			all = append(all, ca)
		}
	}
	return all
}

// setAside finds out whether somebody has put an old copy of the Secret back: there are copies of CAs that it does not know, newer than
// those of the same name that it knows. CAs of other names count, too, if the replica knew them, or has just started. Whatever the Secret
// says of the ends of leaves may be too early, and its CAs must not sign: all are retired.
func (a *advance) setAside(copies certList) {
	noneSigns := parse(a.Active.Cert) == nil && parse(a.Next.Cert) == nil
	isNewer := func(ca *x509.Certificate) bool {
		_, lost := a.Lost[ca.SerialNumber.Text(16)]
		newest := a.newestLike(ca)
		return !lost && !slices.ContainsFunc(a.authorities(), ca.Equal) && (noneSigns || newest != nil && certs.MadeAt(ca).After(certs.MadeAt(newest)))
	}
	if a.Lost == nil || !slices.ContainsFunc(copies, isNewer) {
		return
	}
	for _, ca := range []*Authority{&a.Active, &a.Next} {
		if ca.Cert != nil {
			a.say("the CA %s signs no longer: it is from an old copy of the Secret, and newer ones are trusted", Serial(ca.Cert))
			a.retire(*ca)
			*ca = Authority{}
		}
	}
	for _, ca := range copies {
		a.retireUntil(ca, a.latest())
	}
	a.assumeEnds()
}

// newestLike returns the known CA with the name of another that was made last, or nil. CAs of other names in the caBundles are somebody
// else's, unless the replica knew them after its last look, or remembers none: then it returns the last of all.
func (a *advance) newestLike(other *x509.Certificate) *x509.Certificate {
	known := a.authorities()
	named := slices.DeleteFunc(slices.Clone(known), func(ca *x509.Certificate) bool { return !bytes.Equal(ca.RawSubject, other.RawSubject) })
	remembered := a.view.authorities(a.view.Known)
	if len(named) == 0 && (len(remembered) == 0 || slices.ContainsFunc(remembered, other.Equal)) {
		named = known
	}
	if len(named) == 0 {
		return nil
	}
	return slices.MaxFunc(named, func(a, b *x509.Certificate) int { return certs.MadeAt(a).Compare(certs.MadeAt(b)) })
}

// assumeEnds notes the latest possible end of the leaves of each CA.
func (a *advance) assumeEnds() {
	if a.Active.Cert != nil {
		a.Active.LeavesEnd = a.latest()
	}
	for i := range a.Retired {
		a.Retired[i].LeavesEnd = a.latest()
	}
}

// restore retires the CAs that the Secret lost, with the certificates from wherever there is a copy, for as long as a leaf of
// theirs may be served by any replica. If it is lost for how long, that is the lifetime of a leaf.
func (a *advance) restore(copies certList) {
	known := a.Lost != nil
	if a.Lost = maps.Clone(a.Lost); !known {
		a.Lost = map[string]time.Time{}
		a.assumeEnds()
	}
	maps.DeleteFunc(a.Lost, func(_ string, end time.Time) bool { return a.view.Now.After(end) })
	for _, ca := range copies {
		serial := ca.SerialNumber.Text(16)
		until, lost := a.Lost[serial]
		switch {
		case slices.ContainsFunc(a.authorities(), ca.Equal):
		case lost:
			a.retireUntil(ca, until)
			a.say("the CA %s stays trusted: its certificate was lost, and taken from a copy", serial)
		case !known || a.signedKnown(ca):
			a.retireUntil(ca, a.latest())
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

// extend notes until when the CAs of the known leaves are needed, for an old copy of the Secret may not know of these leaves.
func (a *advance) extend() {
	for _, leaf := range a.leaves() {
		if sameKey(parse(a.Active.Cert), leaf) {
			a.Active.LeavesEnd = later(a.Active.LeavesEnd, leaf.NotAfter)
		}
		for i, r := range a.Retired {
			if !r.LeavesEnd.IsZero() && sameKey(r.Cert, leaf) {
				a.Retired[i].LeavesEnd = later(r.LeavesEnd, leaf.NotAfter)
			}
		}
	}
}

// leaves returns the stored and the served leaf, each if it is there and has not ended.
func (a *advance) leaves() (all []*x509.Certificate) {
	for _, leaf := range []certs.Pair{a.Leaf, a.view.Served} {
		if cert := parse(leaf.Cert); cert != nil && !a.view.Now.After(cert.NotAfter) {
			all = append(all, cert)
		}
	}
	return all
}

// sameKey reports whether the key of a CA has the name of the key that signed a leaf.
func sameKey(ca, leaf *x509.Certificate) bool {
	return ca != nil && len(leaf.AuthorityKeyId) > 0 && bytes.Equal(ca.SubjectKeyId, leaf.AuthorityKeyId)
}

// signedKnown reports whether a CA has signed the stored or the served leaf.
func (a *advance) signedKnown(ca *x509.Certificate) bool {
	return slices.ContainsFunc(a.leaves(), func(leaf *x509.Certificate) bool { return sameKey(ca, leaf) })
}

// latest returns when the last leaf ends that any replica may serve.
func (a *advance) latest() time.Time {
	latest := a.view.Now.Add(a.LeafLife)
	for _, leaf := range a.leaves() {
		latest = later(latest, leaf.NotAfter)
	}
	return latest
}
