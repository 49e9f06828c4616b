package rotation

import (
	"bytes"
	"crypto/x509"
	"slices"

	"usher.dev/usher/certs"
)

// issue makes a new leaf if the stored one is not what it should be, unless one is in use that API servers trust, and
// the new one would be of a CA that some of them may not know yet.
func (a *advance) issue() (err error) {
	why := a.leafFault()
	if why == "" && bytes.Equal(a.Leaf.Cert, a.view.Served.Cert) {
		return nil
	}
	active, inUse := parse(a.Active.Cert), a.inUse()
	used := parse(inUse.Cert)
	if active == nil || why == "" || used != nil && !signed(active, used) && !a.view.Settled(active) {
		if used != nil {
			a.Leaf = inUse // which may be lost
		}
		return nil
	}
	if a.Leaf, err = certs.IssueUntil(a.Active.Pair, a.names(why), a.view.Now, a.view.Now.Add(a.LeafLife)); err != nil {
		return err
	}
	a.Active.LeavesEnd = later(a.Active.LeavesEnd, parse(a.Leaf.Cert).NotAfter)
	a.say("issued the certificate %s (%s)", Serial(a.Leaf.Cert), why)
	return nil
}

// inUse returns the stored or the served leaf, whichever is in use and verifies, if any: the newer one, if both do.
func (a *advance) inUse() certs.Pair {
	stored := a.view.good(a.Leaf)
	if stored && bytes.Equal(a.Leaf.Cert, a.view.Served.Cert) {
		return a.Leaf
	}
	switch {
	case a.view.good(a.view.Served) && (!stored || older(a.Leaf, a.view.Served)):
		return a.view.Served
	case stored:
		return a.Leaf
	}
	return certs.Pair{}
}

// leafFault returns why the leaf should be replaced, or "".
func (a *advance) leafFault() string {
	pair, err := a.Leaf.Serving()
	if err != nil {
		return "there is none that can be served"
	}
	leaf, ca := pair.Leaf, parse(a.Active.Cert)
	switch err := certs.CheckDates(leaf, a.view.Now); {
	case err != nil:
		return "the one before " + err.Error()
	case !covers(leaf, a.Names):
		return lacksName
	case !signed(ca, leaf):
		return "the CA is new"
	case a.ReplaceLeaf == Serial(a.Leaf.Cert):
		return "requested"
	case a.due(leaf) && a.longer(leaf, ca):
		return "due for renewal"
	}
	return ""
}

const lacksName = "it lacks a name"

// names returns the names of a new leaf. If the old leaf only lacks a name, the new leaf keeps its names too: another
// Service may share the Secrets, and its replicas would replace the new leaf in the same way, for ever.
func (a *advance) names(why string) []string {
	all := slices.Clone(a.Names)
	if why != lacksName {
		return all
	}
	for _, name := range parse(a.Leaf.Cert).DNSNames {
		if !slices.Contains(all, name) && len(all) < maxNames {
			all = append(all, name)
		}
	}
	return all
}

// maxNames is the maximum number of names of a leaf: enough for a dozen Services.
const maxNames = 40

// covers reports whether a certificate has all names. It may have more: replicas of two versions must not undo each
// other's work.
func covers(leaf *x509.Certificate, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) != nil })
}

// longer reports whether a new leaf would be valid for noticeably longer: close to the end of its CA it would not.
func (a *advance) longer(leaf, ca *x509.Certificate) bool {
	until := a.view.Now.Add(a.LeafLife)
	if until.After(ca.NotAfter) {
		until = ca.NotAfter
	}
	return until.Sub(leaf.NotAfter) > a.LeafLife/20
}
