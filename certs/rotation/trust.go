// Package rotation keeps the certificates of all replicas in a cluster: a CA and a serving certificate in two Secrets, and
// the CAs that the webhook configurations trust. Whichever replica comes first renews what is due; the others use it.
//
//	trust.go    what the Secrets hold
//	advance.go  the rules: what they hold next; leaf.go: when a leaf is issued
//	copies.go   what the Secrets have lost, or an old copy of them does not know
//	view.go     what a replica sees of the cluster
//	secret.go   the Secrets as objects
//	bundle.go   the caBundles of webhook configurations
//	keeper.go   the loop of a replica: read, decide, write, serve
//	trusted.go  what a replica knows and writes of the caBundles
//	serving.go  which certificate a replica serves, and what the rest of the program may know
//	rotate.go   request a new certificate or CA, and follow it
//
// A new CA is first announced: it is written to every caBundle and does not sign. When every caBundle has contained it
// for a while, it becomes the active one and signs a new leaf. The old one is then retired: its certificate stays in the
// caBundles until the last leaf that it signed has ended. So a leaf that was good when a replica began to serve it stays
// good for as long as it is valid, and replicas need not agree on when to change. A certificate of a CA that the Secret
// lost is taken from a copy, and stays as long. If somebody puts an old copy of the Secret back, the newer CAs stay trusted in the
// same way, and a new one signs next.
package rotation

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"iter"
	"slices"
	"time"

	"usher.dev/usher/certs"
)

// State holds the contents of both Secrets.
type State struct {
	Active  Authority // signs leaves; without a certificate, there is none
	Next    Authority // announced
	Retired []Retired // trusted, without keys
	Leaf    certs.Pair
	Bundle  []byte // the CAs to trust, as they stand beside the leaf

	// Lost says of each CA whose certificate is no longer in the Secret, although it should be, when the last leaf that it
	// signed ends, by its serial number. It is nil if that is lost too, or was never known.
	Lost map[string]time.Time

	// The serial numbers, in hexadecimal, of a CA and a leaf that somebody wants replaced, and of a CA that is not to be
	// trusted any longer than it is needed.
	ReplaceCA, ReplaceLeaf, DistrustCA string
}

// Authority is a CA.
type Authority struct {
	certs.Pair
	LeavesEnd time.Time // when the last leaf that it signed ends; zero if it has signed none, or that is not known
}

// Retired is the certificate of a CA that signs no longer.
type Retired struct {
	Cert      *x509.Certificate
	LeavesEnd time.Time // as of an Authority
}

// serial returns the serial number in hexadecimal.
func (r Retired) serial() string { return r.Cert.SerialNumber.Text(16) }

// authorities returns the certificates of all CAs. Where an Authority holds several, as after a mix-up of the Secrets, the first is the CA.
func (s State) authorities() certList {
	all := certList{parse(s.Active.Cert), parse(s.Next.Cert)}
	return slices.Concat(slices.DeleteFunc(all, func(ca *x509.Certificate) bool { return ca == nil }), s.retired())
}

// retired returns the certificates of the retired CAs.
func (s State) retired() (all certList) {
	for _, r := range s.Retired {
		all = append(all, r.Cert)
	}
	return all
}

// Bundle returns the certificates of all CAs of a state as PEM, always in the same order.
func Bundle(s State) []byte {
	return encode(s.authorities())
}

type certList = []*x509.Certificate

func encode(all certList) []byte {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *x509.Certificate) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	all = slices.CompactFunc(all, (*x509.Certificate).Equal)
	var text []byte
	for _, cert := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return text
}

// parseAll returns the certificates in text, and leaves out what is damaged.
func parseAll(text []byte) certList { return slices.Collect(certificates(text)) }

// certificates is parseAll, one by one.
func certificates(text []byte) iter.Seq[*x509.Certificate] {
	return func(yield func(*x509.Certificate) bool) {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
				continue
			}
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil && !yield(cert) {
				return
			}
		}
	}
}

// parse returns the first certificate in text, or nil.
func parse(text []byte) *x509.Certificate {
	for cert := range certificates(text) {
		return cert
	}
	return nil
}

// Serial returns the serial number of a certificate in hexadecimal, as openssl prints it, or "" if there is none.
func Serial(cert []byte) string {
	if c := parse(cert); c != nil {
		return c.SerialNumber.Text(16)
	}
	return ""
}
