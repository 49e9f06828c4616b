package ledger

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// created returns a quota that is created with a UID.
func created(q *quota.Quota, uid types.UID) *quota.Quota {
	q.UID, q.Created = uid, time.Unix(1e9, 0)
	return q
}

// A quota that is created again under the name of one that was deleted is not observed by a replica that still knows the
// deleted one.
func TestCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=99"), created(makeQuota("q", "top", "cpu=9"), "u1"))
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		again := created(makeQuota("q", "top", "cpu=1"), "u2")
		if err := r1.replaces(t, "q", nil); err != nil {
			t.Fatal(err)
		}
		b.remove("q", r1)
		if err := r1.replaces(t, "q", again); err != nil {
			t.Fatal(err)
		}
		b.store.set(again)
		answer := r2.asks(makePod("q/p", "p", "cpu=5"))
		time.Sleep(maxChange / 2)
		expect(t, "knows the deleted one", soon(answer), "waits")
		time.Sleep(2 * maxChange)
		expect(t, "for long", soon(answer), "waits")
		r2.show("q")
		time.Sleep(maxChange)
		expect(t, "observed", soon(answer), "full q cpu: 5+0+0 of 1")
	})
}

// To create a quota that exists fails, and does not replace the announcement of a change that is being stored.
func TestCreatedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=99"), created(makeQuota("q", "top", "cpu=9"), "u1"))
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		lower := created(makeQuota("q", "top", "cpu=1"), "u1")
		r1.announce(t, lower)
		if err := r1.Announce(t.Context(), QuotaChange{New: created(makeQuota("q", "top", "cpu=9"), "u2")}); err != nil {
			t.Fatal(err)
		}
		b.store.set(lower)
		answer := r2.asks(makePod("q/p", "p", "cpu=5"))
		time.Sleep(3 * maxChange)
		expect(t, "the change is not observed", soon(answer), "waits")
		r2.show("q")
		time.Sleep(maxChange)
		expect(t, "observed", soon(answer), "full q cpu: 5+0+0 of 1")
	})
}

// More changes than a record may announce are not admitted, instead of forgetting the first ones.
func TestAnnounceTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quotas := []*quota.Quota{makeQuota("top", "", "cpu=9999")}
		for i := range maxChanges + 5 {
			quotas = append(quotas, makeQuota(fmt.Sprintf("q%d", i), "top", "cpu=9"))
		}
		b := lay(t, quotas...)
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		stored := 0
		for i := range maxChanges + 5 {
			old, lower := b.store.get(fmt.Sprintf("q%d", i)), makeQuota(fmt.Sprintf("q%d", i), "top", "cpu=1")
			if err := r1.Announce(t.Context(), QuotaChange{Old: old.Quota, New: lower, From: old.Version}); err == nil {
				b.store.set(lower)
				stored++
			}
		}
		for i := range stored {
			answer := r2.asks(makePod(fmt.Sprintf("q%d/p", i), "u", "cpu=5"))
			if time.Sleep(maxOther); soon(answer) == "granted" {
				t.Errorf("q%d: granted", i)
			}
		}
		expect(t, "stored", stored, maxChanges)
		r2.list()
		time.Sleep(time.Minute)
	})
}

// A quota that was given to pods which have not appeared, or which the replica has not observed, is not deleted: they would be
// forgotten, and again when a quota of that name is created.
func TestDeletedWithReservations(t *testing.T) {
	for _, parent := range []string{"", "top"} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, created(makeQuota("top", "", "cpu=9"), "u0"), created(makeQuota("q", parent, "cpu=9"), "u1"))
			r1, r2 := b.watcher("r1"), b.watcher("r2")
			pod := makePod("q/p", "p", "cpu=5")
			expect(t, "a pod", b.reserve(r1.Ledger, ask(pod)), "granted")
			used := func(what string, w *watcher, want bool) {
				t.Helper()
				err := w.replaces(t, "q", nil)
				expect(t, what, errors.Is(err, errUsed), want)
				expect(t, what+": an error", err != nil, want)
			}
			used("it has not appeared", r1, true)
			at := b.stored()
			r1.Pods().Put(seenPod(pod, at))
			r1.sweep(t.Context())
			r2.show("top", "q")
			used("r2 has not observed it", r2, true)
			r2.Pods().Put(seenPod(pod, at))
			r2.Pods().Remove(seenPod(pod, at+1))
			used("it has gone", r2, false)
		})
	}
}

// Nor is one that has moved, while the record of the tree that it was in has reservations for its pods.
func TestDeletedAfterMove(t *testing.T) {
	for _, to := range []string{"to", ""} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, makeQuota("from", "", "cpu=99"), created(makeQuota("q", "from", "cpu=9"), "u1"), makeQuota("to", "", "cpu=99"))
			r1 := b.watcher("r1")
			expect(t, "a pod", b.reserve(r1.Ledger, ask(makePod("q/p", "p", "cpu=5"))), "granted")
			moved := created(makeQuota("q", to, "cpu=9"), "u1")
			r1.announce(t, moved)
			b.store.set(moved)
			r1.show("from", "q", "to")
			expect(t, "below "+to, errors.Is(r1.replaces(t, "q", nil), errUsed), true)
			r1.Pods().Put(seenPod(makePod("q/p", "p", "cpu=5"), 8))
			r1.Pods().Remove(seenPod(makePod("q/p", "p", "cpu=5"), 9))
			expect(t, "it has gone", r1.replaces(t, "q", nil), nil)
		})
	}
}

// A new quota that is deleted before a replica has observed it keeps no pod waiting, also not if it is created again.
func TestCreatedAndDeleted(t *testing.T) {
	claims := func(q *quota.Quota, at int64) *quota.Quota {
		q.Namespaces, q.Created = []string{"x"}, time.Unix(at, 0)
		return q
	}
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, makeQuota("top", "", "cpu=99"), claims(makeQuota("q", "top", "cpu=9"), 2))
			r1 := b.watcher("r1")
			older := claims(created(makeQuota("n", "top", "cpu=9"), "u1"), 1)
			expect(t, "announced", r1.Announce(t.Context(), QuotaChange{New: older}), nil)
			b.store.set(older)
			answer := r1.asks(makePod("x/p", "p", "cpu=1"))
			time.Sleep(2 * maxChange)
			expect(t, "before", soon(answer), "waits")
			if b.remove("n"); again {
				b.store.set(claims(created(makeQuota("n", "top", "cpu=9"), "u2"), 1))
			}
			r1.list()
			time.Sleep(2 * maxChange)
			expect(t, "after", soon(answer), "granted")
		})
	}
}
