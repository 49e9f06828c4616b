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

// A replica that missed a deletion and learns of it from a list lets others wait for it, too, before it drops the announcement.
func TestDeletedInList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=9"), makeQuota("q", "top", "cpu=9"), makeQuota("o", "top", "cpu=9"))
		r1, r2, r3 := b.watcher("r1"), b.watcher("r2"), b.watcher("r3")
		if err := r3.replaces(t, "q", nil); err != nil {
			t.Fatal(err)
		}
		b.remove("q", r3)
		r1.list()
		expect(t, "a pod", <-r1.asks(makePod("o/p", "o", "cpu=1")), "granted")
		answer := r2.asks(makePod("q/p", "p", "cpu=1"))
		time.Sleep(maxBehind / 2)
		expect(t, "it knows the deleted one", soon(answer), "waits")
		time.Sleep(maxBehind)
	})
}

// remove deletes a quota from the store, and shows that to some replicas.
func (b *bench) remove(name string, to ...*watcher) {
	was := b.store.get(name)
	b.store.mu.Lock()
	delete(b.store.objects, keyOf(was.Quota))
	version := b.store.next("")
	b.store.mu.Unlock()
	for _, w := range to {
		delete(w.quotas, keyOf(was.Quota))
		w.grow()
		w.Quotas().Remove(Seen{Key: keyOf(was.Quota).String(), Version: version, Object: was.Quota})
	}
}

// replaces announces that a quota is deleted, or created if there is none.
func (w *watcher) replaces(t *testing.T, name string, q *quota.Quota) error {
	t.Helper()
	old := w.b.store.get(name)
	return w.Announce(t.Context(), QuotaChange{Old: old.Quota, New: q, From: old.Version})
}

// A pod that was admitted before its namespace moved to another quota counts in that one, as soon as the move is observed.
func TestMovedNamespace(t *testing.T) {
	claims := func(q *quota.Quota, namespaces ...string) *quota.Quota {
		q.Namespaces = namespaces
		return q
	}
	for _, parent := range []string{"top", "other"} {
		b := lay(t, makeQuota("top", "", "cpu=99"), makeQuota("other", "", "cpu=99"), makeQuota("from", "top", "cpu=9"), makeQuota("to", parent, "cpu=9"))
		r := b.watcher("r1")
		expect(t, "a pod", b.reserve(r.Ledger, ask(makePod("from/a", "a", "cpu=5"))), "granted")
		labelled := makePod("from/b", "b", "cpu=1")
		labelled.Label, labelled.Labelled = "from", true
		expect(t, "by its label", b.reserve(r.Ledger, ask(labelled)), "granted")
		b.store.set(claims(makeQuota("from", "top", "cpu=9")))
		b.store.set(claims(makeQuota("to", parent, "cpu=9"), "from", "to"))
		r.show("top", "other", "from", "to")
		expect(t, "to, in "+parent, b.reserve(r.Ledger, ask(makePod("to/c", "c", "cpu=5"))), "full to cpu: 5+0+5 of 9")
		expect(t, "from", b.reserve(r.Ledger, ask(func() *quota.Pod { p := makePod("x/d", "d", "cpu=9"); p.Label, p.Labelled = "from", true; return p }())),
			"full from cpu: 9+0+1 of 9")
		expect(t, "waiting in to", r.waiting(t, "to"), "from/a ")
		expect(t, "waiting in from", r.waiting(t, "from"), "from/b ")
	}
}

// waiting returns the pods that a quota's row in the report lists as reserved.
func (w *watcher) waiting(t *testing.T, name string) (pods string) {
	t.Helper()
	rows, err := w.Report()
	if err != nil {
		t.Fatal(err)
	}
	var find func(rows []Row)
	find = func(rows []Row) {
		for _, row := range rows {
			if find(row.Children); row.Name == name {
				for _, one := range row.Waiting {
					pods += one.Pod + " "
				}
			}
		}
	}
	find(rows)
	return pods
}

// What decisions require because of a record stays required when that was deleted, and a list shows it no more.
func TestSeenAfterRelist(t *testing.T) {
	b := lay(t, makeQuota("from", "", "cpu=99"), makeQuota("to", "", "cpu=99"))
	r := b.watcher("r1")
	from := makeQuota("from", "", "cpu=98")
	b.store.mu.Lock()
	b.store.objects[keyOf(from)] = Object{Quota: from, Version: b.store.next(""), Record: `{"seen":"1"}`}
	b.store.mu.Unlock()
	r.show("from")
	b.remove("from")
	r.list()
	expect(t, "required", r.objects.misplacedBelow(r.known.Load(), "to").Seen, "1")
}

// moves lets a quota get another parent in the store, as quotaReservations lets it: with what that requires in the record.
func (b *bench) moves(q *quota.Quota) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	was := b.store.objects[keyOf(q)]
	b.store.objects[keyOf(q)] = Object{Quota: q, Version: b.store.next(""), Record: Moving(was.Record, was.Version)}
}

// A replica that has not observed that a top got a parent, nor that it became a top again, finds it as it knows it; but the pods that
// were admitted in between are in the record of the other tree.
func TestTopAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("other", "", "cpu=99"), makeQuota("q", "", "cpu=9"))
		r1, behind := b.watcher("r1"), b.watcher("behind")
		for _, parent := range []string{"other", ""} {
			r1.announce(t, makeQuota("q", parent, "cpu=9"))
			b.moves(makeQuota("q", parent, "cpu=9"))
			r1.show("q", "other")
			if parent != "" {
				expect(t, "a pod", b.reserve(r1.Ledger, ask(makePod("q/a", "a", "cpu=5"))), "granted")
			}
		}
		answer := behind.asks(makePod("q/b", "b", "cpu=5"))
		time.Sleep(maxBehind / 2)
		expect(t, "behind", soon(answer), "waits")
		behind.show("other", "q")
		expect(t, "not behind", soon(answer), "full q cpu: 5+0+5 of 9")
		time.Sleep(maxBehind)
	})
}

// A pod that moves to the former parent of its quota adds to that one's sum, which a replica sees only when it has observed that the
// quota has moved.
func TestPodMovesToFormerParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("from", "", "cpu=10"), makeQuota("q", "from", "cpu=9"), makeQuota("to", "", "cpu=99"))
		r1, behind := b.watcher("r1"), b.watcher("behind")
		pod := makePod("q/a", "a", "cpu=5")
		moved := *pod
		moved.Label, moved.Labelled = "from", true
		at := b.stored()
		for _, r := range []*watcher{r1, behind} {
			r.Pods().Put(seenPod(pod, at))
		}
		r1.announce(t, makeQuota("q", "to", "cpu=9"))
		b.moves(makeQuota("q", "to", "cpu=9"))
		update, answer := askUpdate(pod, strconv.Itoa(at), &moved), make(chan string, 1)
		go func() { answer <- b.reserve(behind.Ledger, update) }()
		time.Sleep(maxBehind / 2)
		expect(t, "announced", soon(answer), "waits")
		r1.show("q")
		expect(t, "a pod", b.reserve(r1.Ledger, ask(makePod("from/b", "b", "cpu=6"))), "granted")
		expect(t, "behind", soon(answer), "waits")
		behind.show("to", "q", "from") // in the order in which they were stored
		time.Sleep(maxChange)
		expect(t, "not behind", soon(answer), "full from cpu: 5+0+6 of 10")
	})
}
