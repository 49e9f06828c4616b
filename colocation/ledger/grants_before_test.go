package ledger

import (
	"testing"
	"time"
)

// beforeGrants returns a replica of the version before grants.
func (b *bench) beforeGrants(name string) *watcher {
	w := b.watcher(name)
	w.line.old = true
	w.show("q")
	return w
}

// A replica of the version before grants counts them and keeps them, but it loses a recall, which is then made again.
func TestBeforeGrants(t *testing.T) {
	inBubble(t, "cpu=30", func(t *testing.T, b *bench, r1, r2 *watcher) {
		old := b.beforeGrants("old")
		expect(t, "counts", b.reserve(old.Ledger, ask(makePod("q/big", "big", "cpu=20"))), "full q cpu: 20+0+11249m of 30")
		expect(t, "fits", b.reserve(old.Ledger, ask(makePod("q/one", "one", "cpu=1"))), "granted")
		expect(t, "keeps", b.grants(t, "q"), "r1 q: 6249m/0, 6 pods")
		r2.show("q")
		answer := r2.asks(makePod("q/big", "big", "cpu=20"))
		time.Sleep(grantUse / 10)
		expect(t, "recalled", b.grants(t, "q"), "r1 q: 6249m/0, recalled by r2, 6 pods")
		old.show("q")
		expect(t, "fits", b.reserve(old.Ledger, ask(makePod("q/two", "two", "cpu=1"))), "granted")
		expect(t, "lost", b.grants(t, "q"), "r1 q: 6249m/0, 7 pods")
		r2.show("q")
		time.Sleep(grantUse / 10)
		expect(t, "recalled again", b.grants(t, "q"), "r1 q: 6249m/0, recalled by r2, 7 pods")
		r1.show("q")
		time.Sleep(grantUse / 10)
		r2.show("q")
		expect(t, "the room", <-answer, "granted")
	})
}

// Why the gate is for when all replicas know it: one of the version before does not wait for grants when it announces a change, and
// drops the grant of a dead replica when the time of a reservation is over, whatever pods it has admitted and nobody has observed.
func TestBeforeGrantsIsNotSafe(t *testing.T) {
	inBubble(t, "cpu=30", func(t *testing.T, b *bench, r1, _ *watcher) {
		old := b.beforeGrants("old")
		began := time.Now()
		old.announce(t, makeQuota("q", "", "cpu=6"))
		expect(t, "waits", time.Since(began), time.Duration(0))
		r1.admit(t, 6, 8)
		r1.cutOff()
		time.Sleep(2 * DefaultExpiry)
		old.sweep(t.Context())
		expect(t, "dropped", b.record("q"), "seen :")
	})
}

// The clock is read after the record: a replica that stood still in between does not take what it finds for older than it is.
func TestRenewAfterFreeze(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r2.options.Now = func() time.Time {
			r2.options.Now = b.now
			asked := b.now()
			time.Sleep(2 * grantEnd)
			r1.show("q")
			r1.admit(t, 6, 12)
			r2.show("q")
			return asked
		}
		if err := r2.renewOnce(t.Context(), b.store.get("q").Quota); err != nil {
			t.Error(err)
		}
		found, _ := parseRecord(b.store.get("q").Record)
		expect(t, b.grants(t, "q"), r2.longest(found, func(*reservation) bool { return true }), grantEnd)
	})
}
