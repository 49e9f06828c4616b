package rotation

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/certs"
)

const day = 24 * time.Hour

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	plan  = Plan{Names: []string{"usher.usher.svc", "localhost"}, CALife: 365 * day, LeafLife: 30 * day, Distrust: time.Minute}
)

// one is a replica and what it sees, for tests of the rules.
type one struct {
	t       *testing.T
	state   State
	view    View
	settled bool // every CA that the caBundles contain
	events  string
}

// installed returns a replica that serves, and one registered webhook that trusts it.
func installed(t *testing.T) *one {
	o := &one{t: t, view: View{Now: start}, settled: true}
	o.step()
	o.view.Entries = [][]byte{o.state.Bundle}
	o.step()
	return o
}

// step is one round of a replica that can write everything.
func (o *one) step() {
	o.t.Helper()
	o.view.Settled = func(ca *x509.Certificate) bool {
		for _, bundle := range o.view.Entries {
			if !bytes.Contains(bundle, encode(certList{ca})) {
				return false
			}
		}
		return o.settled
	}
	next, events, err := plan.Advance(o.state, o.view)
	if err != nil {
		o.t.Fatal(err)
	}
	again, more, err := plan.Advance(next, o.view)
	if err != nil || len(more) > 0 || !bytes.Equal(again.Bundle, next.Bundle) || !bytes.Equal(again.Leaf.Cert, next.Leaf.Cert) {
		o.t.Fatalf("a second step changes something: %q after %q, %v", more, events, err)
	}
	o.state, o.events = next, strings.Join(events, "; ")
	o.view.Served = o.view.Serve(o.state.Leaf)
	o.view.Known = o.state.Bundle
}

func (o *one) trustAll() {
	for i := range o.view.Entries {
		o.view.Entries[i] = o.state.Bundle
	}
}

// want checks how many CAs are announced and retired, and that what is served verifies, unless nothing can.
func (o *one) want(next bool, retired int, events string) {
	o.t.Helper()
	if got := o.state.Next.Cert != nil; got != next || len(o.state.Retired) != retired || !strings.Contains(o.events, events) || events == "" && o.events != "" {
		o.t.Errorf("announced %v, %d retired, %q; want %v, %d, %q", got, len(o.state.Retired), o.events, next, retired, events)
	}
	if !o.view.good(o.view.Served) {
		o.t.Error("what is served does not verify")
	}
}

// later moves the clock to a part of a certificate's life.
func (o *one) later(cert []byte, part float64) {
	c := parse(cert)
	o.view.Now = c.NotBefore.Add(time.Duration(part * float64(c.NotAfter.Sub(c.NotBefore))))
}

func TestFirstStart(t *testing.T) {
	o := &one{t: t, view: View{Now: start}, settled: true}
	o.step()
	o.want(false, 0, "(there is no CA that can sign); the CA")
	leaf, ca := parse(o.state.Leaf.Cert), parse(o.state.Active.Cert)
	if leaf.NotAfter != start.Add(30*day) || ca.NotAfter != start.Add(365*day) || o.state.Active.LeavesEnd != leaf.NotAfter {
		t.Errorf("leaf until %s, CA until %s, leaves until %s", leaf.NotAfter, ca.NotAfter, o.state.Active.LeavesEnd)
	}
	if !bytes.Equal(o.state.Bundle, o.state.Active.Cert) || leaf.VerifyHostname("usher.usher.svc") != nil {
		t.Error("wrong bundle or name")
	}
	o.step()
	o.want(false, 0, "")
}

// TestFirstStartOfWhatIsRegistered: webhooks without a caBundle trust nobody, so there is nothing to wait for.
func TestFirstStartOfWhatIsRegistered(t *testing.T) {
	o := &one{t: t, view: View{Now: start, Entries: [][]byte{nil, []byte("damaged")}}}
	o.step()
	o.trustAll()
	o.want(false, 0, "signs from now on; issued")
}

func TestLeafIsRenewed(t *testing.T) {
	o := installed(t)
	first := o.state.Leaf
	o.later(first.Cert, 0.60)
	o.step()
	o.want(false, 0, "")
	o.later(first.Cert, 0.67)
	o.step()
	o.want(false, 0, "(due for renewal)")
	if Serial(o.state.Leaf.Cert) == Serial(first.Cert) || !bytes.Equal(o.view.Served.Cert, o.state.Leaf.Cert) {
		t.Error("the old leaf is stored or served")
	}
}

// TestCAIsRenewed: each stage of a renewal, in order, and none before its time.
func TestCAIsRenewed(t *testing.T) {
	o := installed(t)
	old := o.state.Active
	o.later(old.Cert, 0.6)
	o.step() // a new leaf
	o.later(old.Cert, 0.67)
	o.settled = false
	o.step()
	oldLeaf := o.state.Leaf
	o.want(true, 0, "(the CA is due for renewal)")
	if o.state.Active.LeavesEnd != parse(oldLeaf.Cert).NotAfter {
		t.Error("it is not known when the last leaf ends")
	}
	o.step()
	o.want(true, 0, "")
	o.settled = true // but the caBundles do not contain it
	o.step()
	o.want(true, 0, "")
	o.trustAll()
	o.settled = false // they do, for a moment
	o.step()
	o.want(true, 0, "")
	o.settled = true
	o.step()
	o.want(false, 1, "signs from now on; issued")
	if !signed(parse(o.state.Active.Cert), parse(o.view.Served.Cert)) {
		t.Error("the old leaf is served")
	}
	o.view.Now = parse(oldLeaf.Cert).NotAfter
	o.step()
	o.want(false, 1, "issued")
	o.view.Now = o.view.Now.Add(time.Second)
	o.step()
	o.want(false, 0, "is no longer trusted: its last certificate has ended")
	if !bytes.Equal(o.state.Bundle, o.state.Active.Cert) {
		t.Error("the bundle holds more than the CA")
	}
}

func TestRequests(t *testing.T) {
	o := installed(t)
	leaf, ca := Serial(o.state.Leaf.Cert), Serial(o.state.Active.Cert)
	o.state.ReplaceLeaf = leaf
	o.step()
	o.want(false, 0, "(requested)")
	o.step()
	o.want(false, 0, "")
	o.state.ReplaceCA = ca
	o.step()
	o.want(true, 0, "(requested)")
	o.trustAll()
	o.step()
	o.want(false, 1, "signs from now on; issued")
	o.trustAll()
	o.state.DistrustCA = ca
	o.step()
	o.view.Now = o.view.Now.Add(plan.Distrust + time.Second)
	o.step()
	o.want(false, 0, "is no longer trusted")
}

// TestExpiredCA: a CA that has ended is noticed although the leaf has not, and nothing is waited for.
func TestExpiredCA(t *testing.T) {
	o := installed(t)
	o.settled = false
	expired, _ := certs.NewAuthorityUntil(start.Add(-10*day), start.Add(-day))
	o.state.Active.Pair = expired
	o.view.Entries[0], o.view.Known, o.state.Bundle = expired.Cert, nil, nil
	o.step()
	o.trustAll()
	o.want(false, 0, "expired on 2026-02-28T12:00:00Z")
	if parse(o.state.Active.Cert).NotAfter != start.Add(365*day) {
		t.Error("the CA was not replaced")
	}
}

// TestLostSecrets: what is served stays trusted until a new CA is, whatever is lost or damaged.
func TestLostSecrets(t *testing.T) {
	damage := map[string]func(*one){
		"CA deleted":         func(o *one) { o.state.Active = Authority{} },
		"CA key damaged":     func(o *one) { o.state.Active.Key = []byte("damaged") },
		"another CA's key":   func(o *one) { o.state.Active.Key = installed(o.t).state.Active.Key },
		"CA not yet valid":   func(o *one) { o.state.Active.Pair, _ = certs.NewAuthority(o.view.Now.Add(day)) },
		"a leaf, not a CA":   func(o *one) { o.state.Active.Pair = o.state.Leaf },
		"both deleted":       func(o *one) { o.state = State{} },
		"both, CA unknown":   func(o *one) { o.state, o.view.Known = State{}, nil },
		"CA of another kind": func(o *one) { o.state.Active = installed(o.t).state.Active; o.settled = false },
		"and the leaf's key": func(o *one) { o.state.Active, o.state.Leaf.Key = Authority{}, []byte("damaged") },
	}
	for name, damage := range damage {
		t.Run(name, func(t *testing.T) {
			o := installed(t)
			before := o.view.Served
			damage(o)
			o.settled = false
			o.step()
			if !bytes.Equal(o.view.Served.Cert, before.Cert) || !bytes.Equal(o.state.Leaf.Cert, before.Cert) || !bytes.Equal(o.state.Leaf.Key, before.Key) {
				t.Fatalf("the leaf changed before the new CA is trusted: %s", o.events)
			}
			o.trustAll()
			if !o.view.good(before) && name != "CA of another kind" {
				t.Fatal("the new bundle does not trust what is served")
			}
			o.step()
			o.settled = true
			o.step()
			o.trustAll()
			if Serial(o.state.Leaf.Cert) == Serial(before.Cert) || !o.view.good(o.view.Served) {
				t.Errorf("no new leaf in the end: %s", o.events)
			}
		})
	}
}

// TestDamagedSecretInASwap: a new CA signs, and one replica serves its leaf, another still the old CA's leaf. Whatever is damaged
// or lost in usher-ca, the caBundles that the first replica writes trust both leaves, whether it can store what it repairs or not:
// when another replica stores first, it cannot.
func TestDamagedSecretInASwap(t *testing.T) {
	swapped, before := swapped(t)
	announced := swapped.copy(t)
	announced.state.ReplaceCA = Serial(swapped.state.Active.Cert)
	announced.step()
	announced.trustAll()
	damages := map[string]func(data map[string][]byte, key string){
		"damaged": func(data map[string][]byte, key string) { data[key] = []byte("damaged") },
		"deleted": func(data map[string][]byte, key string) { delete(data, key) },
	}
	copies := map[string]func(o *one, beside *[]byte){
		"a copy beside the leaf": func(o *one, _ *[]byte) { o.view.Known, o.view.Entries[0] = nil, nil },
		"a copy in memory":       func(o *one, beside *[]byte) { *beside, o.view.Entries[0] = nil, nil },
		"a copy in the caBundle": func(o *one, beside *[]byte) { *beside, o.view.Known = nil, nil },
	}
	for _, keys := range [][]string{
		{activeCert}, {activeKey}, {retiredCerts}, {leavesEnd}, {activeCert, retiredCerts}, {activeCert, nextCert}, {retiredCerts, leavesEnd},
		{activeCert, activeKey, retiredCerts, leavesEnd}, {activeCert, activeKey, nextCert, nextKey, retiredCerts, leavesEnd},
	} {
		for how, damage := range damages {
			for where, keep := range copies {
				for stage, o := range map[string]*one{"swapped": swapped, "the next announced": announced} {
					t.Run(fmt.Sprint(keys, how, ", ", where, ", ", stage), func(t *testing.T) {
						o := o.copy(t)
						ca, tls := o.stored()
						for _, key := range keys {
							damage(ca, key)
						}
						beside := tls[certs.CACertFile]
						keep(o, &beside)
						tls[certs.CACertFile] = beside
						is, served := read(ca, tls), o.view.Served
						o.state, o.settled = is, false
						o.step()
						for name, s := range map[string]State{"stored": o.state, "not stored": unstored(is, o.state)} {
							if !verifies(parse(before.Cert), Bundle(s), o.view.Now) || !verifies(parse(served.Cert), Bundle(s), o.view.Now) {
								t.Errorf("%s: the bundle does not trust both leaves", name)
							}
						}
						o.state = read(o.stored())
						o.view.Now = parse(before.Cert).NotAfter.Add(plan.LeafLife + time.Second)
						o.step()
						if verifies(parse(before.Cert), Bundle(o.state), parse(before.Cert).NotAfter) {
							t.Error("the old CA stays trusted for longer than the lifetime of a leaf")
						}
					})
				}
			}
		}
	}
}

// TestOldCopies: a copy of the Secrets from before the CA was replaced is put back. What replicas serve stays trusted, whether what
// is repaired can be stored or not, also when the replica that looks first was just started; and a new CA signs in the end.
func TestOldCopies(t *testing.T) {
	old := installed(t).state
	stranger := authorityOf(t, "another CA", 7)
	fresh := func(o *one) { o.view.Served, o.view.Known = certs.Pair{}, nil }
	for name, put := range map[string]func(o *one, ca, tls map[string][]byte){
		"of the CA": func(o *one, _, tls map[string][]byte) { o.state = read(caData(old), tls) },
		"of both":   func(o *one, _, _ map[string][]byte) { o.state = read(caData(old), tlsData(old)) },
		"of both, seen by a new replica": func(o *one, _, _ map[string][]byte) {
			o.state = read(caData(old), tlsData(old))
			fresh(o)
		},
		"with the CA of somebody else": func(o *one, _, tls map[string][]byte) {
			ca := caData(old)
			ca[activeCert], ca[activeKey] = stranger.Cert, stranger.Key
			o.state = read(ca, tls)
		},
		"in which the CA of somebody else signs, seen by a new replica": func(o *one, _, _ map[string][]byte) {
			before := old
			before.Retired, before.Active = []Retired{{parse(old.Active.Cert), start.Add(leafLife)}}, Authority{stranger, start.Add(leafLife)}
			o.state = read(caData(before), tlsData(old))
			fresh(o)
		},
		"that knows a CA of somebody else, which began later, seen by a new replica": func(o *one, _, _ map[string][]byte) {
			before := old
			before.Retired = []Retired{{parse(authorityFrom(t, "another CA", 8, o.view.Now, o.view.Now.Add(day)).Cert), o.view.Now.Add(day)}}
			o.state = read(caData(before), tlsData(old))
			fresh(o)
		},
		"without a CA that can sign, seen by a new replica": func(o *one, _, _ map[string][]byte) {
			ca := caData(old)
			delete(ca, activeKey)
			o.state = read(ca, tlsData(old))
			fresh(o)
		},
		"with all trusted CAs in the place of the one that signs, seen by a new replica, and in no caBundle": func(o *one, _, tls map[string][]byte) {
			ca := caData(old)
			ca[activeCert] = tls[certs.CACertFile]
			delete(ca, activeKey)
			o.state = read(ca, tlsData(old))
			o.view.Entries = [][]byte{old.Bundle}
			fresh(o)
		},
		"with all trusted CAs in the place of the one that signs, seen by a new replica": func(o *one, _, tls map[string][]byte) {
			ca := caData(old)
			ca[activeCert] = tls[certs.CACertFile]
			delete(ca, activeKey)
			o.state = read(ca, tlsData(old))
			fresh(o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &one{t: t, state: old, view: View{Now: start, Entries: [][]byte{old.Bundle}}, settled: true}
			o.step()
			o.replaceCA()
			served := o.state.Leaf
			ca, tls := o.stored()
			put(o, ca, tls)
			is := o.state
			o.settled = false
			o.step()
			for name, s := range map[string]State{"stored": o.state, "not stored": unstored(is, o.state)} {
				if !verifies(parse(served.Cert), Bundle(s), o.view.Now) {
					t.Errorf("%s: the bundle does not trust what is served", name)
				}
			}
			o.trustAll()
			o.settled = true
			o.step()
			o.step()
			if o.state.Next.Cert != nil || !o.view.good(o.view.Served) || !signed(parse(o.state.Active.Cert), parse(o.view.Served.Cert)) {
				t.Errorf("no CA signs in the end: %s", o.events)
			}
		})
	}
}

// TestOldCopyOfAnotherName: a replica that has just started finds an old copy, and in the caBundles a CA of another name that the copy
// does not know: other replicas may serve what it has signed.
func TestOldCopyOfAnotherName(t *testing.T) {
	o, before := strangerSigns(t)
	served := parse(o.state.Leaf.Cert)
	fresh := &one{t: t, state: before, view: View{Now: o.view.Now.Add(time.Hour), Entries: slices.Clone(o.view.Entries)}}
	fresh.step()
	fresh.want(true, 2, "from an old copy of the Secret")
	if !verifies(served, fresh.state.Bundle, fresh.view.Now) {
		t.Error("the bundle does not trust what is served")
	}
}

// TestOldCopyOfAnotherNameIsNotReplaced: a replica that could not replace an old copy when it started, and serves the leaf in it, keeps
// the CA of another name in the caBundles at its next look too. The simulation found it with the seed 1795790490821261453.
func TestOldCopyOfAnotherNameIsNotReplaced(t *testing.T) {
	o, before := strangerSigns(t)
	served := parse(o.state.Leaf.Cert)
	fresh := &one{t: t, state: before, view: View{Now: o.view.Now.Add(time.Hour), Entries: slices.Clone(o.view.Entries)}}
	for range 3 {
		fresh.step()
		fresh.want(true, 2, "from an old copy of the Secret")
		fresh.state = unstored(before, fresh.state)
		fresh.view.Known, fresh.view.Served = Bundle(fresh.state), before.Leaf
		if !verifies(served, fresh.view.Known, fresh.view.Now) {
			t.Fatal("the bundle does not trust what is served")
		}
		fresh.view.Entries[0], fresh.state = fresh.view.Known, before
	}
}

// TestOldCopyBesideAnOlderLeaf: of two replicas, one serves a leaf of the CA of another name, and one that knows this CA has not
// changed to that leaf. Then old copies are back, and the second replica looks first.
func TestOldCopyBesideAnOlderLeaf(t *testing.T) {
	o, before := strangerSigns(t)
	served := parse(o.state.Leaf.Cert)
	o.state, o.view.Served = before, before.Leaf
	o.step()
	o.want(true, 2, "from an old copy of the Secret")
	if !verifies(served, o.state.Bundle, o.view.Now) {
		t.Error("the bundle does not trust what is served")
	}
}

// TestARemovedCAOfAnotherNameStaysRemoved: it was replaced a minute after it was made, and distrusted. usher's CAs are dated back, so
// that the one that signs now begins earlier.
func TestARemovedCAOfAnotherNameStaysRemoved(t *testing.T) {
	o, _ := strangerSigns(t)
	copies, removed := o.state.Bundle, parse(o.state.Active.Cert)
	o.view.Now = removed.NotBefore.Add(time.Minute)
	o.state.ReplaceCA, o.state.DistrustCA = Serial(o.state.Active.Cert), Serial(o.state.Active.Cert)
	for range 2 {
		o.step()
		o.trustAll()
	}
	if active := parse(o.state.Active.Cert); o.state.Next.Cert != nil || !active.NotBefore.Before(removed.NotBefore) {
		t.Fatal("no CA that begins earlier signs")
	}
	copies = slices.Concat(copies, o.state.Active.Cert)
	o.view.Now = o.view.Now.Add(plan.Distrust + time.Second)
	o.step()
	o.state = read(o.stored())
	o.view.Known, o.view.Entries[0] = copies, copies
	fresh := &one{t: t, state: o.state, view: View{Now: o.view.Now, Entries: slices.Clone(o.view.Entries)}}
	for _, o := range []*one{o, fresh} {
		o.step()
		o.want(false, 1, "")
		if bytes.Contains(o.state.Bundle, encode(certList{removed})) {
			t.Error("it is trusted again")
		}
	}
}

// strangerSigns returns a replica that serves a leaf of a CA with another name, and what was stored before that CA was.
func strangerSigns(t *testing.T) (o *one, before State) {
	o = installed(t)
	before = read(o.stored())
	o.view.Now = o.view.Now.Add(day)
	stranger, ca := authorityFrom(t, "another CA", 7, o.view.Now, o.view.Now.Add(365*day)), caData(o.state)
	ca[activeCert], ca[activeKey] = stranger.Cert, stranger.Key
	o.state = read(ca, tlsData(o.state))
	for range 3 {
		o.step()
		o.trustAll()
	}
	if !signed(parse(stranger.Cert), parse(o.state.Leaf.Cert)) || !bytes.Equal(o.view.Served.Cert, o.state.Leaf.Cert) {
		t.Fatal("the CA of another name does not sign")
	}
	return o, before
}

// TestOldCopyEndsEarlier: a CA is trusted for as long as its last leaf is valid, although an old copy of the Secret does not know it.
func TestOldCopyEndsEarlier(t *testing.T) {
	o := installed(t)
	old := caData(o.state)
	o.view.Now = o.view.Now.Add(day)
	o.state.ReplaceLeaf = Serial(o.state.Leaf.Cert)
	o.step()
	served := parse(o.view.Served.Cert)
	o.state = read(old, tlsData(o.state))
	o.replaceCA()
	o.view.Now = served.NotAfter
	if o.step(); !verifies(served, o.state.Bundle, o.view.Now) {
		t.Error("it is not trusted until its end")
	}
}

// TestOldCopySaysThatACAHasEnded: it signed once more since, after an even older copy was put back. The simulation found it with
// the seed 1795464975246143750.
func TestOldCopySaysThatACAHasEnded(t *testing.T) {
	o := installed(t)
	first := o.state.Active
	o.replaceCA()
	old := o.state
	o.view.Now = old.Retired[0].LeavesEnd.Add(time.Hour)
	served, _ := certs.IssueUntil(first.Pair, plan.Names, o.view.Now, o.view.Now.Add(30*day))
	o.replaceCA()
	fresh := &one{t: t, state: read(caData(old), tlsData(old)), view: View{Now: o.view.Now, Entries: [][]byte{slices.Concat(o.state.Bundle, first.Cert)}}}
	if fresh.step(); !verifies(parse(served.Cert), fresh.state.Bundle, fresh.view.Now) {
		t.Error("the bundle does not trust what is served")
	}
}

// TestEqualSerialNumbers: two CAs of others may have one serial number, such as 1.
func TestEqualSerialNumbers(t *testing.T) {
	o := installed(t)
	first, second := authorityOf(t, "first", 1), authorityOf(t, "second", 1)
	o.state.Active = Authority{Pair: first}
	o.step()
	o.trustAll()
	o.step()
	served := o.view.Served
	if !signed(parse(first.Cert), parse(served.Cert)) {
		t.Fatal("the first CA does not sign")
	}
	o.state = read(map[string][]byte{activeCert: second.Cert, activeKey: second.Key}, tlsData(o.state))
	if o.step(); !verifies(parse(served.Cert), o.state.Bundle, o.view.Now) {
		t.Error("the bundle does not trust what is served")
	}
}

// authorityOf returns a CA that is not usher's.
func authorityOf(t *testing.T, name string, serial int64) certs.Pair {
	return authorityFrom(t, name, serial, start, start.Add(365*day))
}

// authorityFrom returns a CA for a time, as others than usher make one.
func authorityFrom(t *testing.T, name string, serial int64, from, until time.Time) certs.Pair {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certs.Pair{Cert: encodePEM("CERTIFICATE", der), Key: encodePEM("PRIVATE KEY", private)}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// TestNewestOfManyCAs: after many swaps of the CA both Secrets are lost, and the replica that looks first was just started. It
// cannot know what others serve, but the CA that signed last stays trusted.
func TestNewestOfManyCAs(t *testing.T) {
	o := installed(t)
	for range maxRetired + 8 {
		o.view.Now = o.view.Now.Add(time.Hour)
		o.state.ReplaceCA = Serial(o.state.Active.Cert)
		o.step()
		o.trustAll()
		o.step()
	}
	o.want(false, maxRetired+8, "signs from now on; issued")
	fresh := &one{t: t, view: View{Now: o.view.Now, Entries: slices.Clone(o.view.Entries)}}
	fresh.step()
	if !verifies(parse(o.state.Leaf.Cert), fresh.state.Bundle, o.view.Now) || len(fresh.state.Retired) != maxRetired {
		t.Errorf("%d CAs are kept, and that of the leaf that is served is not among them", len(fresh.state.Retired))
	}
}

// copy returns a replica that sees the same, for another test.
func (o *one) copy(t *testing.T) *one {
	c := *o
	c.t, c.view.Entries = t, slices.Clone(o.view.Entries)
	return &c
}

// stored returns the data of both Secrets, and read the state that is in it.
func (o *one) stored() (ca, tls map[string][]byte) { return caData(o.state), tlsData(o.state) }

func read(ca, tls map[string][]byte) State {
	return decode(stored{secret: corev1.Secret{Data: ca}}, stored{secret: corev1.Secret{Data: tls}})
}

// swapped returns a replica whose CA was just replaced, and the leaf before.
func swapped(t *testing.T) (o *one, before certs.Pair) {
	o = installed(t)
	before = o.state.Leaf
	o.replaceCA()
	o.want(false, 1, "signs from now on; issued")
	return o, before
}

// replaceCA replaces the CA a day later.
func (o *one) replaceCA() {
	o.view.Now = o.view.Now.Add(day)
	o.state.ReplaceCA = Serial(o.state.Active.Cert)
	o.step()
	o.trustAll()
	o.step()
	o.trustAll()
}

// TestARemovedCAStaysRemoved: a CA that was distrusted, or whose last leaf has ended, does not come back from a copy.
func TestARemovedCAStaysRemoved(t *testing.T) {
	o, before := swapped(t)
	copies := o.state.Bundle
	o.state.DistrustCA = o.state.Retired[0].serial()
	o.step()
	o.view.Now = o.view.Now.Add(plan.Distrust + time.Second)
	o.step()
	o.want(false, 0, "is no longer trusted")
	o.state = read(o.stored())
	o.state.Bundle, o.view.Known, o.view.Entries[0] = copies, copies, copies
	fresh := &one{t: t, state: o.state, view: View{Now: o.view.Now, Entries: slices.Clone(o.view.Entries)}}
	for _, o := range []*one{o, fresh} {
		o.step()
		o.want(false, 0, "")
		if verifies(parse(before.Cert), o.state.Bundle, o.view.Now) {
			t.Error("it is trusted again")
		}
	}
}

// TestLostLeaf: a leaf that is deleted, damaged or of other names is issued at once.
func TestLostLeaf(t *testing.T) {
	for name, damage := range map[string]func(*one){
		"deleted":       func(o *one) { o.state.Leaf = certs.Pair{} },
		"damaged":       func(o *one) { o.state.Leaf.Cert = o.state.Leaf.Cert[:100] },
		"key exchanged": func(o *one) { o.state.Leaf.Key = o.state.Active.Key },
		"ended":         func(o *one) { o.view.Now = o.view.Now.Add(31 * day) },
		"other names": func(o *one) {
			o.state.Leaf, _ = certs.Issue(o.state.Active.Pair, []string{"x.svc"}, start)
		},
		"clock back": func(o *one) {
			o.state.Leaf, _ = certs.IssueUntil(o.state.Active.Pair, plan.Names, start.Add(day), start.Add(9*day))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := installed(t)
			before := Serial(o.view.Served.Cert)
			damage(o)
			o.step()
			o.want(false, 0, "issued")
			if Serial(o.view.Served.Cert) == before {
				t.Error("the old leaf is served")
			}
		})
	}
}

// TestMoreNames: a replica of an older version does not undo what a newer one has issued.
func TestMoreNames(t *testing.T) {
	o := installed(t)
	o.state.Leaf, _ = certs.Issue(o.state.Active.Pair, append([]string{"more.svc", "::1"}, plan.Names...), start)
	o.step()
	o.want(false, 0, "")
}

// TestMigration: a certificate that was made elsewhere, and its CA, are used until a CA of the cluster is trusted.
func TestMigration(t *testing.T) {
	o := &one{t: t, view: View{Now: start}}
	ca, _ := certs.NewAuthority(start)
	leaf, _ := certs.Issue(ca, plan.Names, start)
	o.state, o.view.Entries = State{Leaf: leaf, Bundle: ca.Cert}, [][]byte{ca.Cert}
	o.step()
	o.want(true, 1, "made the CA")
	if !bytes.Equal(o.view.Served.Cert, leaf.Cert) {
		t.Error("it serves another certificate")
	}
	o.trustAll()
	o.settled = true
	o.step()
	o.want(false, 1, "issued")
}

// TestCloseToTheEndOfTheCA: a leaf does not outlive its CA, and is not issued again and again before that ends.
func TestCloseToTheEndOfTheCA(t *testing.T) {
	o := installed(t)
	o.settled = false // the caBundles cannot be written
	issued := 0
	for part := 0.5; part < 0.999; part += 0.004 {
		o.later(o.state.Active.Cert, part)
		o.step()
		if strings.Contains(o.events, "issued") {
			issued++
		}
		if parse(o.state.Leaf.Cert).NotAfter.After(parse(o.state.Active.Cert).NotAfter) {
			t.Fatal("the leaf outlives its CA")
		}
	}
	if issued > 12 {
		t.Errorf("%d leaves in half a year", issued)
	}
}
