package ledger

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/colocation/quota"
)

// stored returns the version at which a pod is stored now.
func (b *bench) stored() int {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	version, _ := strconv.Atoi(b.store.next(""))
	return version
}

// The reservations of a quota's pods were dropped from the record of the tree that it was in: a replica that has not observed these
// pods counts neither in the tree that it is in now.
func TestSeenBeforeMove(t *testing.T) {
	quotas := []*quota.Quota{makeQuota("from", "", "cpu=99"), makeQuota("q", "from", "cpu=9"), makeQuota("to", "", "cpu=99")}
	for what, show := range map[string]func(b *bench, behind *watcher){
		"watched": func(b *bench, behind *watcher) { behind.show("from", "q", "to") },
		"listed":  func(b *bench, behind *watcher) { behind.list() },
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(what+", dropped "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := lay(t, quotas...)
					r1, behind := b.watcher("r1"), b.watcher("behind")
					pod := makePod("q/a", "a", "cpu=5")
					expect(t, "a pod", b.reserve(r1.Ledger, ask(pod)), "granted")
					at := b.stored()
					drop := func() {
						r1.Pods().Put(seenPod(pod, at))
						r1.sweep(t.Context())
						expect(t, "dropped", b.record("from"), "seen "+strconv.Itoa(at)+":")
					}
					if when == "before" {
						drop()
					}
					r1.announce(t, makeQuota("q", "to", "cpu=9"))
					b.store.set(makeQuota("q", "to", "cpu=9"))
					r1.show("q")
					if when == "after" {
						show(b, behind)
						expect(t, "misplaced", soon(behind.asks(makePod("q/b", "b", "cpu=5"))), "full q cpu: 5+0+5 of 9")
						drop()
					}
					show(b, behind)
					answer := behind.asks(makePod("q/b", "b", "cpu=5"))
					expect(t, "behind", soon(answer), "waits")
					behind.Pods().Put(seenPod(pod, at))
					expect(t, "not behind", soon(answer), "full q cpu: 5+5+0 of 9")
					time.Sleep(maxBehind)
				})
			})
		}
	}
}

// list delivers the current state of all quotas at once.
func (w *watcher) list() {
	w.b.store.mu.Lock()
	all, version := []Seen{}, strconv.Itoa(w.b.store.version)
	clear(w.quotas)
	for key, o := range w.b.store.objects {
		w.quotas[key] = o.Quota
		all = append(all, Seen{Key: key.String(), Version: o.Version, Object: o.Quota, Record: o.Record})
	}
	w.b.store.mu.Unlock()
	w.grow()
	w.Quotas().Replace(all, version)
}
