package ledger

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/colocation/quota"
)

// listing returns a quota that lists namespaces; the pods of a namespace belong to the quota that was created first.
func listing(q *quota.Quota, age int64, namespaces ...string) *quota.Quota {
	q.Namespaces, q.Created = namespaces, time.Unix(age, 0)
	return q
}

// labelled returns a pod with the label of a quota.
func labelled(p *quota.Pod, name string) *quota.Pod {
	with := *p
	with.Label, with.Labelled = name, true
	return &with
}

// A replica that has observed all but the last change of a top, by which pods of a namespace came into its tree, or into another quota of
// the tree, does not count these pods there.
func TestTopGetsNamespace(t *testing.T) {
	for what, c := range map[string]struct {
		before, after []*quota.Quota
		pod           string
		want          string
	}{
		"from another tree": {[]*quota.Quota{listing(makeQuota("x", "", "cpu=9"), 1, "x"), listing(makeQuota("s", "", "cpu=99"), 2, "s", "y")},
			[]*quota.Quota{listing(makeQuota("s", "", "cpu=99"), 2, "s"), listing(makeQuota("x", "", "cpu=9"), 1, "x", "y")}, "x/b", "full x cpu: 5+0+5 of 9"},
		"to a quota below": {[]*quota.Quota{listing(makeQuota("x", "", "cpu=99"), 1, "x", "y"), listing(makeQuota("s", "x", "cpu=9"), 2, "s", "y")},
			[]*quota.Quota{listing(makeQuota("x", "", "cpu=99"), 1, "x")}, "s/b", "full s cpu: 5+0+5 of 9"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := lay(t, c.before...)
				r1, behind := b.watcher("r1"), b.watcher("behind")
				expect(t, "a pod", b.reserve(r1.Ledger, ask(makePod("y/a", "a", "cpu=5"))), "granted")
				behind.show("s", "x")
				for i, q := range c.after {
					r1.announce(t, q)
					b.moves(q)
					if r1.show(q.Name); i < len(c.after)-1 {
						behind.show(q.Name)
					}
				}
				answer := behind.asks(makePod(c.pod, "b", "cpu=5"))
				time.Sleep(maxBehind / 2)
				expect(t, "behind", soon(answer), "waits")
				behind.show("x")
				expect(t, "not behind", soon(answer), c.want)
				time.Sleep(maxBehind)
			})
		})
	}
}

// The record of a top that was deleted and created again says nothing of what happened before. A replica that knows the deleted one
// has observed neither the pods that count in the new one nor what is required elsewhere because of them.
func TestTopCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := func() *quota.Quota { return listing(makeQuota("x", "", "cpu=9"), 1, "x", "y") }
		b := lay(t, created(x(), "u1"), listing(makeQuota("s", "", "cpu=99"), 1e9+1, "s", "y"))
		r1, behind := b.watcher("r1"), b.watcher("behind")
		expect(t, "deleted", r1.replaces(t, "x", nil), nil)
		b.remove("x", r1)
		pod := makePod("y/a", "a", "cpu=5")
		expect(t, "a pod", b.reserve(r1.Ledger, ask(pod)), "granted")
		at := b.stored()
		r1.Pods().Put(seenPod(pod, at))
		r1.sweep(t.Context())
		expect(t, "dropped", b.record("s"), "seen "+strconv.Itoa(at)+":")
		without := listing(makeQuota("s", "", "cpu=99"), 1e9+1, "s")
		r1.announce(t, without)
		b.moves(without)
		r1.show("s")
		again := created(x(), "u2")
		expect(t, "created", r1.replaces(t, "x", again), nil)
		b.store.set(again)
		answer := behind.asks(makePod("x/b", "b", "cpu=5"))
		time.Sleep(maxBehind / 2)
		expect(t, "behind", soon(answer), "waits")
		behind.show("s", "x")
		behind.Pods().Put(seenPod(pod, at))
		expect(t, "not behind", soon(answer), "full x cpu: 5+5+0 of 9")
		time.Sleep(maxBehind)
	})
}

// A pod that gets the label of the quota that its namespace was bound to until then moves there.
func TestLabelOfFormerQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=99"), listing(makeQuota("q", "top", "cpu=9"), 1, "q", "y"), makeQuota("z", "", "cpu=99"))
		r1, behind := b.watcher("r1"), b.watcher("behind")
		pod, at := makePod("y/a", "a", "cpu=5"), b.stored()
		for _, r := range []*watcher{r1, behind} {
			r.Pods().Put(seenPod(pod, at))
		}
		for _, q := range []*quota.Quota{listing(makeQuota("q", "top", "cpu=9"), 1, "q"), listing(makeQuota("z", "", "cpu=99"), 1, "z", "y")} {
			r1.announce(t, q)
			b.moves(q)
			r1.show(q.Name)
		}
		expect(t, "a pod", b.reserve(r1.Ledger, ask(makePod("q/b", "b", "cpu=9"))), "granted")
		update, answer := askUpdate(pod, strconv.Itoa(at), labelled(pod, "q")), make(chan string, 1)
		go func() { answer <- b.reserve(behind.Ledger, update) }()
		time.Sleep(maxBehind / 2)
		expect(t, "behind", soon(answer), "waits")
		behind.show("top", "q", "z")
		time.Sleep(maxChange)
		expect(t, "not behind", soon(answer), "full q cpu: 5+0+9 of 9")
	})
}

// Of two attempts for one pod, one with the label of a quota and one of its namespace, either may be stored after the namespace has moved.
func TestAttemptsAndMovedNamespace(t *testing.T) {
	b := lay(t, makeQuota("top", "", "cpu=99"), listing(makeQuota("q", "top", "cpu=9"), 1, "q", "y"), makeQuota("z", "top", "cpu=9"))
	r := b.watcher("r1")
	expect(t, "by its label", b.reserve(r.Ledger, ask(labelled(makePod("y/a", "a1", "cpu=5"), "q"))), "granted")
	expect(t, "by its namespace", b.reserve(r.Ledger, ask(makePod("y/a", "a2", "cpu=5"))), "granted")
	b.store.set(listing(makeQuota("q", "top", "cpu=9"), 1, "q"))
	b.store.set(listing(makeQuota("z", "top", "cpu=9"), 1, "z", "y"))
	r.show("top", "q", "z")
	expect(t, "q", b.reserve(r.Ledger, ask(makePod("q/b", "b", "cpu=5"))), "full q cpu: 5+0+5 of 9")
	expect(t, "z", b.reserve(r.Ledger, ask(makePod("z/c", "c", "cpu=5"))), "full z cpu: 5+0+5 of 9")
}

// A new quota that pods name already, for example exempt ones, brings these into the sums of the quotas above it.
func TestNewQuotaWithPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=9"), makeQuota("o", "top", "cpu=9"))
		r1, behind := b.watcher("r1"), b.watcher("behind")
		pod, at := labelled(makePod("kube-system/a", "a", "cpu=5"), "n"), b.stored()
		for _, r := range []*watcher{r1, behind} {
			r.Pods().Put(seenPod(pod, at))
		}
		made := created(listing(makeQuota("n", "top", "cpu=9"), 1), "u1")
		expect(t, "announced", r1.replaces(t, "n", made), nil)
		b.store.set(made)
		answer := behind.asks(makePod("o/b", "b", "cpu=5"))
		time.Sleep(maxBehind / 2)
		expect(t, "behind", soon(answer), "waits")
		behind.show("n")
		time.Sleep(maxChange)
		expect(t, "not behind", soon(answer), "full top cpu: 5+5+0 of 9")
	})
}
